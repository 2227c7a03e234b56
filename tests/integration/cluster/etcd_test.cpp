// The registry in real etcd processes: what every registry does, and what only a cluster can: going on without one of
// its members.
#include <array>
#include <atomic>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "parallel/servers/registry/election.h"
#include "parallel/servers/registry/etcd_registry.h"
#include "parallel/servers/registry/membership.h"
#include "parallel/servers/registry/registry_contract.h"
#include "support/etcd_cluster.h"

namespace trifold::test {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

std::unique_ptr<Registry> open_registry(const std::vector<std::string>& urls) {
  return std::make_unique<EtcdRegistry>(EtcdRegistryOptions{.endpoints = {.urls = urls}, .job = "test"});
}

class EtcdWorld final : public RegistryWorld {
 public:
  std::unique_ptr<Registry> open() override { return open_registry(cluster_.urls()); }

 private:
  EtcdCluster cluster_{1};
};

INSTANTIATE_TEST_SUITE_P(Etcd, RegistryContract,
                         ::testing::Values(RegistryKind{
                             .name = "OneMember",
                             .shortest_lease = 2000ms,
                             .make = []() -> std::unique_ptr<RegistryWorld> {
                               if (EtcdCluster::missing() != nullptr) return nullptr;
                               return std::make_unique<EtcdWorld>();
                             },
                             .missing = EtcdCluster::missing() == nullptr ? "" : EtcdCluster::missing()}),
                         [](const auto& kind) { return kind.param.name; });

class EtcdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (EtcdCluster::missing() != nullptr) GTEST_SKIP() << EtcdCluster::missing();
  }
};

// Every thread counts in its own column of one text, so that each change is of what all wrote before, and each thread
// can see whether a change was made whose answer it never got.
class SharedCounts {
 public:
  static constexpr int kThreads = 3;

  static std::vector<int> read(const std::string& text) {
    std::vector<int> counts;
    std::istringstream in(text);
    for (int count = 0; in >> count;) counts.push_back(count);
    counts.resize(kThreads);
    return counts;
  }

  // How many are counted for certain.
  static int count(Registry& registry, std::size_t column, const std::atomic<bool>& stop, std::atomic<int>& progress) {
    int done = 0;
    while (!stop) {
      try {
        const auto seen = registry.get("counts");
        std::vector<int> counts = read(seen ? seen->text : "");
        EXPECT_GE(counts[column], done);
        done = counts[column];  // with the change that was not answered, if it was made
        ++counts[column];
        std::string text;
        for (const int value : counts) text += std::to_string(value) + " ";
        if (registry.put_if("counts", seen ? seen->revision : 0, text)) ++done;
        progress = done;
      } catch (const Unreachable&) {
      }
    }
    return done;
  }
};

int total_of(const std::string& text) {
  int sum = 0;
  for (const int count : SharedCounts::read(text)) sum += count;
  return sum;
}

TEST_F(EtcdTest, GoesOnWhenTheLeadingMemberIsKilled) {
  EtcdCluster cluster(3);
  const auto urls = cluster.urls();
  const RegistryFactory factory = [urls] { return open_registry(urls); };
  const auto member = [](const std::string& id, const std::string& role) {
    return MembershipOptions{.self = {.id = id, .role = role, .address = {}, .public_key = {}}, .lease = 8s};
  };
  Membership server(member("s1", "server"), factory);
  server.join();
  auto first = std::make_unique<Membership>(member("m1", "manager"), factory);
  first->join();
  ASSERT_TRUE(Election({.id = "m1", .role = "manager", .address = {}, .public_key = {}})
                  .campaign(*factory(), first->lease(), 0ms));

  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  std::array<int, SharedCounts::kThreads> counted = {};
  std::array<std::atomic<int>, SharedCounts::kThreads> progress = {};
  for (std::size_t i = 0; i < counted.size(); ++i)
    threads.emplace_back([&, i] { counted[i] = SharedCounts::count(*factory(), i, stop, progress[i]); });
  std::atomic<int> told = 0;  // sum of the counts, as the watch tells it
  threads.emplace_back([&] {
    const auto registry = factory();
    std::int64_t revision = 0;
    while (!stop || told < total_of(registry->get("counts")->text)) {
      try {
        for (const auto& [entry, removed] : registry->changes("counts", revision, 200ms)) {
          EXPECT_TRUE(told == 0 || total_of(entry.text) == told + 1) << told << " then " << entry.text;
          told = total_of(entry.text);
        }
      } catch (const Unreachable&) {
      }
    }
  });
  std::thread second([&] {  // wants to lead
    Membership other(member("m2", "manager"), factory);
    other.join();
    const auto registry = factory();
    const Election election({.id = "m2", .role = "manager", .address = {}, .public_key = {}});
    const auto deadline = SteadyClock::now() + 60s;
    bool leads = false;
    while (!leads && SteadyClock::now() < deadline) {
      try {
        leads = election.campaign(*registry, other.lease(), 500ms);
      } catch (const Error& error) {
        EXPECT_NE(dynamic_cast<const Unreachable*>(&error), nullptr) << error.what();
      }
    }
    EXPECT_TRUE(leads);
    other.leave();
  });

  std::this_thread::sleep_for(700ms);
  const int killed = cluster.leader();
  ASSERT_GE(killed, 0);
  const int before = told;
  EXPECT_GT(before, 0);
  cluster.kill(killed);
  const auto deadline = SteadyClock::now() + 30s;
  while (told < before + 30 && SteadyClock::now() < deadline) std::this_thread::sleep_for(20ms);
  EXPECT_GE(told, before + 30) << "changes go on";
  EXPECT_EQ(Election::leader(*factory())->id, "m1") << "its lease is kept";
  EXPECT_TRUE(first->lease_valid());
  first.reset();  // dies without a word
  second.join();
  EXPECT_TRUE(server.lease_valid());
  EXPECT_TRUE(factory()->get("members/s1"));
  stop = true;
  for (auto& thread : threads) thread.join();

  const auto last = SharedCounts::read(factory()->get("counts")->text);
  for (std::size_t i = 0; i < counted.size(); ++i) {
    EXPECT_EQ(last[i], counted[i]) << "thread " << i;
    EXPECT_GT(counted[i], 0);
  }
  const int leader = cluster.leader();
  EXPECT_NE(leader, killed);
}

TEST_F(EtcdTest, MemberThatDoesNotAnswerIsPassedOver) {
  EtcdCluster cluster(3);
  const int paused = (cluster.leader() + 1) % 3;
  auto urls = cluster.urls();
  std::swap(urls[0], urls[static_cast<std::size_t>(paused)]);  // asked first
  const auto registry = open_registry(urls);
  registry->put("a", "1");
  std::int64_t revision = registry->get("a")->revision;
  EXPECT_TRUE(registry->changes("", revision, 10ms).empty());
  cluster.pause(paused);
  EXPECT_EQ(registry->get("a")->text, "1");
  registry->put("a", "2");
  // Of another member, when the one that watched was silent for long.
  const auto changes = registry->changes("", revision, 20s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].entry.text, "2");
}

TEST_F(EtcdTest, MinorityDecidesNothing) {
  EtcdCluster cluster(3);
  const int left = (cluster.leader() + 1) % 3;
  const auto registry = open_registry({cluster.url(left)});
  registry->put("a", "1");
  const LeaseId lease = registry->grant(60s);
  std::int64_t revision = registry->get("a")->revision;
  for (int i = 0; i < 3; ++i)
    if (i != left) cluster.kill(i);
  EXPECT_THROW(registry->put("a", "2"), Unreachable);
  EXPECT_THROW(registry->get("a"), Unreachable);
  EXPECT_THROW(registry->keep_alive(lease), Unreachable);
  EXPECT_THROW(registry->changes("", revision, 10s), Unreachable);
}

TEST_F(EtcdTest, ForgottenHistoryIsToldAsItIsNow) {
  EtcdCluster cluster(1);
  const auto registry = open_registry(cluster.urls());
  registry->put("m/a", "1");
  std::int64_t revision = registry->get("m/a")->revision;
  registry->put("m/a", "2");
  registry->put("m/b", "3");
  EtcdGateway({.urls = cluster.urls()})
      .call("/v3/kv/compaction", {{"revision", std::to_string(registry->get("m/b")->revision)}},
            EtcdGateway::Repeat::freely);
  const auto changes = registry->changes("m/", revision, 5s);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].entry.text, "2");
  EXPECT_EQ(changes[1].entry.text, "3");
  EXPECT_TRUE(registry->changes("m/", revision, 20ms).empty());
}

TEST_F(EtcdTest, ChangeThatNobodyHasSeenGoesToTheNextMember) {
  EtcdCluster cluster(1);
  const auto registry = open_registry({"127.0.0.1:1", cluster.url(0)});  // nobody listens at the first
  registry->put("a", "1");
  EXPECT_EQ(registry->get("a")->text, "1");
}

TEST_F(EtcdTest, JobsDoNotSeeEachOther) {
  EtcdCluster cluster(1);
  EtcdRegistry one({.endpoints = {.urls = cluster.urls()}, .job = "job"});
  EtcdRegistry other({.endpoints = {.urls = cluster.urls()}, .job = "job2"});
  one.put("a", "1", 0);
  EXPECT_FALSE(other.get("a"));
  EXPECT_TRUE(other.list("").empty());
  EXPECT_EQ(one.list("").size(), 1u);
}

TEST(EtcdRegistry, SaysWhatItCannotUse) {
  EXPECT_THROW(EtcdRegistry({.endpoints = {.urls = {}}, .job = "a"}), Error);
  EXPECT_THROW(EtcdRegistry({.endpoints = {.urls = {"https://127.0.0.1:1"}}, .job = "a"}), Error);
  EXPECT_THROW(EtcdRegistry({.endpoints = {.urls = {"127.0.0.1:1"}}, .job = "a/b"}), Error);
  EtcdRegistry nobody({.endpoints = {.urls = {"127.0.0.1:1"}, .patience = 200ms}, .job = "a"});
  EXPECT_THROW(nobody.get("a"), Unreachable);
  EXPECT_THROW(nobody.put("a", "", 0), Unreachable);
  std::int64_t revision = 5;
  EXPECT_THROW(nobody.changes("", revision, 100ms), Unreachable);
}

}  // namespace
}  // namespace trifold::test
