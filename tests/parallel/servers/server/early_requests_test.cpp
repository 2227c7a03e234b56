#include "parallel/servers/server/early_requests.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

Received early_request(int number, std::size_t bytes) {
  Received received;
  received.message.fields = {{"id", number}};
  received.message.payload = Payload::own(std::vector<std::byte>(bytes));
  return received;
}

TEST(EarlyRequests, ComeBackInTheirOrder) {
  EarlyRequests early(100);
  EXPECT_TRUE(early.add(early_request(1, 10), 5));
  EXPECT_TRUE(early.add(early_request(2, 10), 4));
  const std::vector<EarlyRequest> all = early.take_all();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].request.message.fields["id"], 1);
  EXPECT_EQ(all[0].epoch, 5);
  EXPECT_EQ(all[1].request.message.fields["id"], 2);
  EXPECT_TRUE(early.take_all().empty());
}

TEST(EarlyRequests, TakeNoMoreRoomThanTheyHave) {
  EarlyRequests early(100);
  EXPECT_TRUE(early.add(early_request(1, 60), 1));
  EXPECT_FALSE(early.add(early_request(2, 41), 1));
  EXPECT_TRUE(early.add(early_request(3, 40), 1));
  early.take_all();
  EXPECT_TRUE(early.add(early_request(4, 100), 1)) << "room is free again";
}

TEST(EarlyRequests, AreNoMoreThanTheyMayBe) {
  EarlyRequests early(100);
  int taken = 0;
  while (taken < 100000 && early.add(early_request(taken, 0), 1)) ++taken;
  EXPECT_EQ(taken, 4096);
}

}  // namespace
}  // namespace trifold
