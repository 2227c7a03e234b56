// The registry's rules where time is given: revisions, leases, what is remembered, and what a restart finds again.
#include "parallel/servers/registry/registry_store.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;
using Time = RegistryStore::Time;

const Time kStart{};

// As a manager's loop does: often.
void pass(RegistryStore& store, Time from, std::chrono::milliseconds time) {
  for (auto passed = 0ms; passed < time; passed += 100ms) store.pass_time(from + passed);
  store.pass_time(from + time);
}

std::vector<std::string> told(const std::vector<RegistryChange>& changes) {
  std::vector<std::string> texts;
  for (const auto& [entry, removed] : changes)
    texts.push_back(removed ? "-" + entry.name : entry.name + "=" + entry.text);
  return texts;
}

TEST(RegistryStore, LeaseRunsOutWithItsNames) {
  RegistryStore store({}, kStart);
  const LeaseId lease = store.grant(3s, kStart);
  store.put("members/a", "A", lease);
  store.put("members/b", "B", 0);
  pass(store, kStart, 2999ms);
  EXPECT_EQ(store.list("members/").size(), 2u);
  EXPECT_TRUE(store.keep_alive(lease, kStart + 2999ms));
  pass(store, kStart + 2999ms, 2999ms);
  EXPECT_EQ(store.list("members/").size(), 2u);
  pass(store, kStart + 5998ms, 1ms);
  ASSERT_EQ(store.list("members/").size(), 1u);
  EXPECT_EQ(store.list("members/")[0].name, "members/b");
  EXPECT_FALSE(store.keep_alive(lease, kStart + 6s));
  EXPECT_THROW(store.put("members/a", "A", lease), Error);
  EXPECT_THROW(store.put_if("members/c", 0, "C", lease), Error);
}

TEST(RegistryStore, NameLivesByTheLeaseItWasLastWrittenWith) {
  RegistryStore store({}, kStart);
  const LeaseId first = store.grant(1s, kStart), second = store.grant(9s, kStart);
  store.put("a", "1", first);
  store.put("a", "2", second);
  store.revoke(first);
  EXPECT_EQ(store.get("a")->text, "2");
  store.put("a", "3", 0);
  store.revoke(second);
  EXPECT_EQ(store.get("a")->text, "3");
}

TEST(RegistryStore, TimeInWhichItDidNotRunCountsForNobody) {
  RegistryStore store({}, kStart);
  store.put("a", "A", store.grant(3s, kStart));
  pass(store, kStart, 2s);
  store.pass_time(kStart + 60s);  // stopped for 58 s
  pass(store, kStart + 60s, 999ms);
  EXPECT_TRUE(store.get("a"));
  pass(store, kStart + 60999ms, 1ms);
  EXPECT_FALSE(store.get("a"));
}

TEST(RegistryStore, ChangesAreToldInTheirOrder) {
  RegistryStore store({}, kStart);
  const LeaseId lease = store.grant(1s, kStart);
  store.put("m/a", "1", lease);
  std::int64_t revision = 0;
  EXPECT_EQ(told(store.changes("m/", revision)), std::vector<std::string>{"m/a=1"});
  EXPECT_TRUE(store.changes("m/", revision).empty());
  store.put("m/b", "2", 0);
  store.put("n", "no", 0);
  store.put("m/b", "3", 0);
  store.remove("m/b");
  store.remove("m/b");
  store.revoke(lease);
  EXPECT_EQ(told(store.changes("m/", revision)), (std::vector<std::string>{"m/b=2", "m/b=3", "-m/b", "-m/a"}));
  EXPECT_EQ(revision, store.revision());
}

TEST(RegistryStore, WhatIsForgottenIsToldAsItIsNow) {
  RegistryStore store({}, kStart);
  store.put("m/a", "A", 0);
  std::int64_t revision = store.revision();
  for (int i = 0; i < 5000; ++i) store.put("m/b", std::to_string(i), 0);
  EXPECT_EQ(told(store.changes("m/", revision)), (std::vector<std::string>{"m/a=A", "m/b=4999"}));
  std::int64_t of_another = 1000000;
  EXPECT_EQ(store.changes("m/", of_another).size(), 2u);
  EXPECT_EQ(of_another, store.revision());
}

TEST(RegistryStore, RestartedGoesOn) {
  const testing::TemporaryDirectory directory;
  const auto file = directory.path() / "registry.json";
  LeaseId lease = 0;
  std::int64_t revision = 0;
  {
    RegistryStore store(file, kStart);
    lease = store.grant(3s, kStart);
    store.put("members/a", "A \"quoted\"\n", lease);
    store.put("gone", "", 0);
    store.remove("gone");
    revision = store.revision();
  }
  const Time later = kStart + 1h;
  RegistryStore store(file, later);
  EXPECT_EQ(store.revision(), revision);
  EXPECT_FALSE(store.get("gone"));
  ASSERT_TRUE(store.get("members/a"));
  EXPECT_EQ(store.get("members/a")->text, "A \"quoted\"\n");
  std::int64_t seen = revision;
  EXPECT_TRUE(store.changes("", seen).empty());  // a watch goes on too
  EXPECT_NE(store.grant(1s, later), lease);
  pass(store, later, 2999ms);
  EXPECT_TRUE(store.get("members/a"));
  pass(store, later + 2999ms, 1ms);
  EXPECT_FALSE(store.get("members/a"));
  EXPECT_EQ(told(store.changes("", seen)), std::vector<std::string>{"-members/a"});
}

TEST(RegistryStore, WhatCouldNotBeSavedWasNotDone) {
  const testing::TemporaryDirectory directory;
  const auto folder = directory.path() / "state";
  std::filesystem::create_directory(folder);
  RegistryStore store(folder / "registry.json", kStart);
  store.put("a", "1", 0);
  std::filesystem::remove_all(folder);
  EXPECT_THROW(store.put("a", "2", 0), Error);
  EXPECT_EQ(store.get("a")->text, "1");
}

TEST(RegistryStore, DamagedStateIsRefused) {
  const testing::TemporaryDirectory directory;
  const auto file = directory.path() / "registry.json";
  RegistryStore(file, kStart).put("a", "text", 0);
  std::string text;
  std::getline(std::ifstream(file), text);
  for (const std::string& damaged : {text.substr(0, text.size() / 2), std::string(), std::string("{}"),
                                     std::string(R"({"format":1,"revision":1,"last_lease":1,"leases":[],)"
                                                 R"("entries":[{"name":"a","text":"","revision":1,"lease":1}]})")}) {
    std::ofstream(file, std::ios::trunc) << damaged;
    EXPECT_THROW(RegistryStore(file, kStart), Error) << damaged;
  }
  std::ofstream(file, std::ios::trunc) << text;
  EXPECT_EQ(RegistryStore(file, kStart).get("a")->text, "text");
}

TEST(RegistryStore, RefusesWhatIsTooLarge) {
  RegistryStore store({}, kStart);
  EXPECT_THROW(store.put("", "x", 0), Error);
  EXPECT_THROW(store.put(std::string(RegistryStore::kLongestName + 1, 'n'), "x", 0), Error);
  EXPECT_THROW(store.put("a", std::string(RegistryStore::kLongestText + 1, 'x'), 0), Error);
  EXPECT_THROW(store.put("a", "\xFF", 0), Error);
  EXPECT_THROW(store.grant(0ms, kStart), Error);
  EXPECT_THROW(store.grant(std::chrono::hours(25), kStart), Error);
  EXPECT_EQ(store.revision(), 0);
}

}  // namespace
}  // namespace trifold
