// What workers tell managers: each hears all that the ones before it were told, once.
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "parallel/servers/client/server_client.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;

struct ReportReader {
  Mailbox mailbox{{.listen = "tcp://127.0.0.1:*"}};

  MemberInfo info(const std::string& id) const { return {.id = id, .role = "manager", .address = mailbox.address()}; }
  // The clocks of the next so many reports.
  std::vector<int> clocks(std::size_t count) {
    std::vector<int> heard;
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (heard.size() < count && std::chrono::steady_clock::now() < deadline)
      if (const auto received = mailbox.receive(100ms); received && received->message.kind == MessageKind::report)
        heard.push_back(received->message.fields.at("clock"));
    return heard;
  }
};

TEST(Reports, ANewManagerHearsWhatTheOneBeforeWasTold) {
  ServerClient client({.tensors = {{.name = "w", .elements = 4}}});
  client.report({{"clock", 0}});  // before there is any
  ReportReader first;
  client.set_manager(first.info("m1"));
  client.report({{"clock", 1}});
  EXPECT_EQ(first.clocks(2), (std::vector<int>{0, 1}));
  client.set_manager(first.info("m1"));  // the same, said again
  client.report({{"clock", 2}});
  EXPECT_EQ(first.clocks(1), (std::vector<int>{2}));

  ReportReader second;
  client.set_manager(second.info("m2"));
  client.report({{"clock", 3}});
  EXPECT_EQ(second.clocks(4), (std::vector<int>{0, 1, 2, 3}));
  client.set_manager(second.info("m3"));  // another one at the same place
  EXPECT_EQ(second.clocks(4), (std::vector<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace trifold
