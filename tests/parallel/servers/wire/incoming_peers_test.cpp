#include "parallel/servers/wire/incoming_peers.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

TEST(IncomingPeersTest, TheSameNameIsTheSamePeerUntilForgotten) {
  IncomingPeers peers;
  PeerId next = 10;
  EXPECT_EQ(peers.number_of("a", next), 10u);
  EXPECT_EQ(peers.number_of("b", next), 11u);
  EXPECT_EQ(peers.number_of("a", next), 10u);
  EXPECT_EQ(*peers.name_of(11), "b");
  peers.forget(11);
  EXPECT_EQ(peers.name_of(11), nullptr);
  EXPECT_EQ(peers.number_of("b", next), 12u);  // a number is never used again
  peers.forget(99);
}

TEST(IncomingPeersTest, TheLongestSilentAreForgottenWhenThereAreMany) {
  IncomingPeers peers(3);
  PeerId next = 1;
  for (const char* name : {"a", "b", "c"}) peers.number_of(name, next);
  peers.number_of("a", next);
  peers.number_of("d", next);
  EXPECT_EQ(peers.size(), 3u);
  EXPECT_NE(peers.name_of(1), nullptr);
  EXPECT_EQ(peers.name_of(2), nullptr);  // b
  for (int i = 0; i < 1000; ++i) peers.number_of(std::to_string(i), next);
  EXPECT_EQ(peers.size(), 3u);
}

}  // namespace
}  // namespace trifold
