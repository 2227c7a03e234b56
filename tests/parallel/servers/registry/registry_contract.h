// What every registry does, whoever keeps it: the same tests for all implementations. A program includes this once and
// instantiates RegistryContract with its worlds.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "parallel/servers/registry/registry.h"

namespace trifold::test {

// A registry that is kept somewhere, empty.
class RegistryWorld {
 public:
  virtual ~RegistryWorld() = default;
  virtual std::unique_ptr<Registry> open() = 0;
};

struct RegistryKind {
  const char* name = "";
  std::chrono::milliseconds shortest_lease = std::chrono::milliseconds(400);
  std::function<std::unique_ptr<RegistryWorld>()> make;  // null: this machine cannot
  const char* missing = "";                              // why not
};

inline void PrintTo(const RegistryKind& kind, std::ostream* out) {
  *out << kind.name;
}

class RegistryContract : public ::testing::TestWithParam<RegistryKind> {
 protected:
  void SetUp() override {
    world_ = GetParam().make();
    if (!world_) GTEST_SKIP() << GetParam().missing;
    registry_ = world_->open();
  }
  std::chrono::milliseconds short_lease() const { return GetParam().shortest_lease; }

  // Changes until the one of that name, or what there was after ten seconds.
  static std::vector<std::string> told_until(Registry& registry, const std::string& prefix, std::int64_t& revision,
                                             const std::string& last) {
    std::vector<std::string> told;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < deadline)
      for (const auto& [entry, removed] : registry.changes(prefix, revision, std::chrono::milliseconds(500))) {
        told.push_back(removed ? "-" + entry.name : entry.name + "=" + entry.text);
        if (told.back() == last) return told;
      }
    return told;
  }

  std::unique_ptr<RegistryWorld> world_;
  std::unique_ptr<Registry> registry_;
};

using Texts = std::vector<std::string>;

TEST_P(RegistryContract, KeepsTextsUnderNames) {
  EXPECT_FALSE(registry_->get("a"));
  EXPECT_TRUE(registry_->list("").empty());
  const std::string text = "line\n\"quoted\" \\ é \x01 " + std::string(200000, 'x');
  registry_->put("m/b", text);
  registry_->put("m/a", "");
  registry_->put("n", "N");
  ASSERT_TRUE(registry_->get("m/b"));
  EXPECT_EQ(registry_->get("m/b")->text, text);
  EXPECT_EQ(registry_->get("m/b")->name, "m/b");
  const auto listed = world_->open()->list("m/");
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].name, "m/a");
  EXPECT_EQ(listed[0].text, "");
  EXPECT_EQ(listed[1].name, "m/b");
  EXPECT_LT(listed[1].revision, listed[0].revision);
  EXPECT_EQ(registry_->list("").size(), 3u);
  registry_->remove("m/b");
  registry_->remove("m/b");
  EXPECT_FALSE(registry_->get("m/b"));
}

TEST_P(RegistryContract, ChangesOnlyFromWhatWasSeen) {
  const auto first = registry_->put_if("a", 0, "1");
  ASSERT_TRUE(first);
  EXPECT_EQ(registry_->get("a")->revision, *first);
  EXPECT_FALSE(registry_->put_if("a", 0, "2"));
  const auto second = registry_->put_if("a", *first, "2");
  ASSERT_TRUE(second);
  EXPECT_GT(*second, *first);
  EXPECT_FALSE(registry_->put_if("a", *first, "3"));
  EXPECT_EQ(registry_->get("a")->text, "2");
  registry_->remove("a");
  EXPECT_FALSE(registry_->put_if("a", *second, "4"));
  EXPECT_GT(registry_->put_if("a", 0, "5").value_or(0), *second);
}

TEST_P(RegistryContract, NoChangeOfManyIsLost) {
  constexpr int kThreads = 3, kEach = 15;
  registry_->put("count", "0");
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([registry = world_->open()] {
      for (int done = 0; done < kEach;) {
        const auto seen = registry->get("count");
        if (registry->put_if("count", seen->revision, std::to_string(std::stoi(seen->text) + 1))) ++done;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(registry_->get("count")->text, std::to_string(kThreads * kEach));
}

TEST_P(RegistryContract, NameGoesWithItsLease) {
  const LeaseId kept = registry_->grant(short_lease()), lost = registry_->grant(short_lease());
  EXPECT_NE(kept, lost);
  registry_->put("m/kept", "", kept);
  ASSERT_TRUE(registry_->put_if("m/lost", 0, "", lost));
  std::atomic<bool> stop = false;
  std::thread keeper([&, registry = world_->open()] {
    while (!stop) {
      EXPECT_TRUE(registry->keep_alive(kept));
      std::this_thread::sleep_for(short_lease() / 4);
    }
  });
  std::int64_t revision = 0;
  EXPECT_EQ(registry_->changes("m/", revision, std::chrono::milliseconds(0)).size(), 2u);
  EXPECT_EQ(told_until(*registry_, "m/", revision, "-m/lost"), Texts{"-m/lost"});
  std::this_thread::sleep_for(short_lease());
  EXPECT_TRUE(registry_->get("m/kept"));
  stop = true;
  keeper.join();
  EXPECT_FALSE(registry_->keep_alive(lost));
  EXPECT_THROW(registry_->put("m/lost", "", lost), Error);
  EXPECT_THROW(registry_->put_if("m/lost", 0, "", lost), Error);
  registry_->revoke(lost);
}

TEST_P(RegistryContract, RevokedLeaseTakesItsNamesAtOnce) {
  const LeaseId lease = registry_->grant(std::chrono::minutes(10));
  registry_->put("m/a", "", lease);
  registry_->put("m/b", "", lease);
  registry_->put("m/b", "stays");  // without a lease now
  registry_->revoke(lease);
  EXPECT_FALSE(registry_->get("m/a"));
  EXPECT_TRUE(registry_->get("m/b"));
  EXPECT_FALSE(registry_->keep_alive(lease));
}

TEST_P(RegistryContract, TellsChangesInTheirOrder) {
  registry_->put("m/a", "1");
  std::int64_t revision = 0;
  EXPECT_EQ(told_until(*registry_, "m/", revision, "m/a=1"), Texts{"m/a=1"});
  registry_->put("m/a", "2");
  registry_->put("n", "not of these");
  registry_->put("m/b", "3");
  registry_->remove("m/a");
  const auto other = world_->open();
  std::int64_t same = revision;
  const Texts expected{"m/a=2", "m/b=3", "-m/a"};
  EXPECT_EQ(told_until(*registry_, "m/", revision, "-m/a"), expected);
  EXPECT_EQ(told_until(*other, "m/", same, "-m/a"), expected);
  EXPECT_TRUE(registry_->changes("m/", revision, std::chrono::milliseconds(20)).empty());
  registry_->put("m/c", "4");
  EXPECT_EQ(told_until(*registry_, "m/", revision, "m/c=4"), Texts{"m/c=4"});
}

TEST_P(RegistryContract, ChangeEndsTheWait) {
  std::int64_t revision = 0;
  EXPECT_TRUE(registry_->changes("m/", revision, std::chrono::milliseconds(20)).empty());
  std::thread writer([registry = world_->open()] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    registry->put("other", "");
    registry->put("m/a", "A");
  });
  const auto begun = std::chrono::steady_clock::now();
  const auto changes = registry_->changes("m/", revision, std::chrono::seconds(8));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
  writer.join();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].entry.text, "A");
  EXPECT_EQ(changes[0].entry.revision, registry_->get("m/a")->revision);
}

TEST_P(RegistryContract, WaitEndsInTime) {
  std::int64_t revision = 0;
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(registry_->changes("m/", revision, std::chrono::milliseconds(200)).empty());
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_GE(took, std::chrono::milliseconds(199));
  EXPECT_LT(took, std::chrono::seconds(3));
}

}  // namespace trifold::test
