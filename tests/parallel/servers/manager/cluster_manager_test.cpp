// A manager that finds a cluster which another one has led.
#include "parallel/servers/manager/cluster_manager.h"

#include <thread>

#include <gtest/gtest.h>

#include "parallel/servers/registry/local_registry.h"
#include "parallel/servers/server/status_message.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;

class ClusterManagerTest : public ::testing::Test {
 protected:
  static MemberInfo member(const std::string& id, const std::string& role) {
    return {.id = id, .role = role, .address = role == "server" ? "tcp://127.0.0.1:1" : ""};
  }

  ClusterManagerTest() {
    for (const MemberInfo& info : {member("s1", "server"), member("w1", "worker"), member("w2", "worker")})
      registry_.put(kMembersPrefix + info.id, to_text(info), 0);
    layout_.tensors = {{.name = "w", .elements = 4}};
    layout_.slices = cut_into_slices(layout_.tensors);
    layout_.shards = 2;
  }

  // As its last manager left it.
  void leave_cluster(const View& view) { revision_ = *registry_.put_if(kViewName, revision_, to_text(view), 0); }
  static View led_by_another() {
    return {.version = 7,
            .epoch = 3,
            .settled = true,
            .leader = {.id = "m0", .role = "manager", .address = "tcp://127.0.0.1:2"},
            .begun_by = "m0",
            .servers = {member("s1", "server")},
            .sources = {"s1"},
            .workers = {"w1", "w2"},
            .shard_owners = {"w1", "w2"}};
  }

  ClusterManager& lead(std::function<bool()> leads = {}) {
    manager_ = std::make_unique<ClusterManager>(
        ClusterManager::Args{.self = {.id = "m1", .role = "manager", .address = mailbox_.address()},
                             .mailbox = &mailbox_,
                             .registry = std::make_unique<LocalRegistry>(store_),
                             .layout = layout_,
                             .participation = {.shards = 2},
                             .workers = 2,
                             .leads = std::move(leads),
                             .on_failure = [this](const std::string& why) { why_it_ended_ = why; }});
    return *manager_;
  }
  static std::vector<SliceState> at_clock(std::int64_t clock) {
    return {{.values = std::make_shared<std::vector<float>>(4), .version = 1, .applied = {clock, clock}}};
  }
  View written() { return view_from_text(registry_.get(kViewName)->text); }
  template <class Condition>
  bool comes(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
    return condition();
  }

  std::shared_ptr<SharedRegistryStore> store_ = std::make_shared<SharedRegistryStore>();
  LocalRegistry registry_{store_};
  std::int64_t revision_ = 0;
  Mailbox mailbox_{{.listen = "tcp://127.0.0.1:*"}};
  ServedLayout layout_;
  std::string why_it_ended_;  // set by the manager's thread, which goes before it
  std::unique_ptr<ClusterManager> manager_;
};

TEST_F(ClusterManagerTest, LeadsOnWithoutDisturbingAnybody) {
  leave_cluster(led_by_another());
  ClusterManager& manager = lead();
  manager.offer(at_clock(20), ClusterManager::Offer::clocks);
  EXPECT_TRUE(comes([&] { return written().leader.id == "m1"; }));
  View expected = led_by_another();
  expected.version = 8;
  expected.leader = {.id = "m1", .role = "manager", .address = mailbox_.address()};
  EXPECT_EQ(written(), expected);
  EXPECT_TRUE(manager.wait_for(19, 0ms));
  EXPECT_FALSE(manager.wait_for(20, 0ms));
  EXPECT_FALSE(manager.asked_to_end());
}

TEST_F(ClusterManagerTest, KnowsHowEachShardKeepsUp) {
  leave_cluster(led_by_another());
  ClusterManager& manager = lead();
  manager.offer(at_clock(20), ClusterManager::Offer::clocks);
  Mailbox worker({});
  const PeerId peer = worker.connect(mailbox_.address());
  const auto report = [&](int shard, int clock, int samples, int ms, const std::string& to) {
    EXPECT_TRUE(worker.send(peer, {.kind = MessageKind::report,
                                   .fields = {{"manager", to},
                                              {"shard", shard},
                                              {"clock", clock},
                                              {"loss", 0.5},
                                              {"correct", 1},
                                              {"samples", samples},
                                              {"step_ms", ms},
                                              {"staleness", clock - 20},
                                              {"late", 0},
                                              {"sent_bytes", 100},
                                              {"received_bytes", 300},
                                              {"peak_bytes", 1000}}}));
  };
  report(1, 21, 8, 30, "the manager before");  // by a connection that outlived it; all are repeated to this one
  report(1, 19, 0, 0, "m1");                   // it was taken over, and has done nothing
  report(1, 20, 8, 10, "m1");
  EXPECT_TRUE(comes([&] { return manager.progress()[1].clock == 20; }));
  report(1, 21, 8, 30, "m1");
  EXPECT_TRUE(comes([&] { return manager.progress()[1].clock == 21; }));
  const std::vector<ShardProgress> shards = manager.progress();
  EXPECT_EQ(shards[0].clock, 19);
  EXPECT_EQ(shards[0].reports, 0);
  EXPECT_EQ(shards[1].reports, 2);
  EXPECT_EQ(shards[1].work_ms, 40);
  EXPECT_EQ(shards[1].sent_bytes, 200);
  EXPECT_EQ(shards[1].received_bytes, 600);
  EXPECT_EQ(shards[1].last.staleness, 1);
  EXPECT_EQ(shards[1].last.peak_bytes, 1000);
  EXPECT_EQ(manager.farthest(), 21);
}

// Copies that servers have kept of slices which were moved are needed until then.
TEST_F(ClusterManagerTest, SaysWhenAllSlicesHaveTheirReplicas) {
  Mailbox server({.listen = "tcp://127.0.0.1:*"});
  View view = led_by_another();
  view.servers[0].address = server.address();
  registry_.put(std::string(kMembersPrefix) + "s1", to_text(view.servers[0]), 0);
  leave_cluster(view);
  lead().offer(at_clock(20), ClusterManager::Offer::clocks);
  int asked = 0;
  EXPECT_TRUE(comes([&] {
    const auto question = server.receive(1ms);
    if (question && question->message.kind == MessageKind::status) {
      EXPECT_FALSE(written().safe);
      ++asked;
      const ServerStatus status{.server = "s1", .epoch = asked == 1 ? 2 : 3, .safe = asked > 2};
      server.send(question->from, message_of(status, 0));
    }
    return written().safe;
  }));
  EXPECT_GE(asked, 3);  // of another epoch, and not yet: neither counts
}

TEST_F(ClusterManagerTest, KnowsThatTheOneBeforeWasAskedToEnd) {
  View view = led_by_another();
  view.stop_clock = 25;
  view.stopped_by = "asked to";
  leave_cluster(view);
  EXPECT_TRUE(lead().asked_to_end());
}

TEST_F(ClusterManagerTest, HasNothingToSayOnceAnotherOneLeads) {
  leave_cluster(led_by_another());
  ClusterManager& manager = lead();
  manager.offer(at_clock(0));
  ASSERT_TRUE(comes([&] { return written().leader.id == "m1"; }));
  View view = written();
  view.version += 1;
  view.leader.id = "m2";
  registry_.put(kViewName, to_text(view), 0);
  registry_.remove(std::string(kMembersPrefix) + "w2");  // it would write a view now
  EXPECT_TRUE(comes([&] { return !manager.leads(); }));
  EXPECT_THROW(manager.wait_for(5, 1ms), LeadershipLost);
  EXPECT_EQ(written(), view);
}

TEST_F(ClusterManagerTest, EndsWithItsLease) {
  std::atomic<bool> leads = true;
  ClusterManager& manager = lead([&] { return leads.load(); });
  EXPECT_TRUE(manager.leads());
  EXPECT_FALSE(manager.lost_leadership());
  leads = false;
  EXPECT_TRUE(comes([&] { return !manager.leads(); }));
  EXPECT_TRUE(manager.lost_leadership());
  manager_.reset();
  EXPECT_EQ(why_it_ended_, "this manager's lease has run out: another may lead the job now");
}

// s1's lease ran out, and it comes back as s2 with what it holds: nothing was lost meanwhile.
TEST_F(ClusterManagerTest, WaitsForServersThatMayComeBack) {
  View view = led_by_another();
  view.served = {.epoch = 3, .servers = {"s1"}};
  leave_cluster(view);
  ClusterManager& manager = lead();
  manager.offer(at_clock(20), ClusterManager::Offer::clocks);
  ASSERT_TRUE(comes([&] { return written().leader.id == "m1"; }));
  registry_.remove(std::string(kMembersPrefix) + "s1");
  std::this_thread::sleep_for(200ms);
  EXPECT_TRUE(manager.leads());
  Mailbox server({.listen = "tcp://127.0.0.1:*"});
  const MemberInfo back{.id = "s2", .role = "server", .address = server.address(), .holds = "m0"};
  registry_.put(std::string(kMembersPrefix) + "s2", to_text(back), 0);
  EXPECT_TRUE(comes([&] {
    const auto question = server.receive(1ms);
    if (question && question->message.kind == MessageKind::status)
      server.send(question->from, message_of(ServerStatus{.server = "s2",
                                                          .ids = {"s1", "s2"},
                                                          .epoch = written().epoch,
                                                          .slices = {{.slice = 0, .epoch = 3, .version = 21}}},
                                             0));
    const View now = written();
    return now.settled && now.epoch == 4;
  }));
  EXPECT_EQ(written().sources, std::vector<std::string>{"s2"});
  EXPECT_EQ(written().served, (ServedEpoch{.epoch = 4, .servers = {"s2"}}));
}

}  // namespace
}  // namespace trifold
