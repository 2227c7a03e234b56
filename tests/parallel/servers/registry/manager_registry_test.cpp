// A manager that is not there, comes back, or says no.
#include "parallel/servers/registry/manager_registry.h"

#include <gtest/gtest.h>

#include "parallel/servers/registry/served_registry.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;

TEST(ManagerRegistry, SaysWhenNobodyAnswers) {
  std::string address;
  {
    const test::ServedRegistry served({});
    address = served.address();
  }
  ManagerRegistry registry({.address = address, .patience = 50ms});
  EXPECT_THROW(registry.get("a"), Unreachable);
  EXPECT_THROW(registry.put("a", "", 0), Unreachable);
  std::int64_t revision = 0;
  EXPECT_THROW(registry.changes("", revision, 10ms), Unreachable);
}

TEST(ManagerRegistry, GoesOnWithARestartedManager) {
  const testing::TemporaryDirectory directory;
  const auto file = directory.path() / "registry.json";
  auto served = std::make_unique<test::ServedRegistry>(test::ServedRegistry::Args{.file = file});
  const std::string address = served->address();
  const auto registry = served->open(300ms);
  const LeaseId lease = registry->grant(30s);
  registry->put("members/a", "A", lease);
  std::int64_t revision = 0;
  EXPECT_EQ(registry->changes("", revision, 1s).size(), 1u);
  served.reset();
  EXPECT_THROW(registry->put("b", "never", 0), Unreachable);
  std::this_thread::sleep_for(1100ms);  // what the mailbox still wanted to say is forgotten
  served = std::make_unique<test::ServedRegistry>(test::ServedRegistry::Args{.file = file, .listen = address});
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  bool alive = false;
  while (!alive && std::chrono::steady_clock::now() < deadline) {
    try {
      alive = registry->keep_alive(lease);
    } catch (const Unreachable&) {
    }
  }
  EXPECT_TRUE(alive);
  EXPECT_EQ(registry->get("members/a")->text, "A");
  EXPECT_FALSE(registry->get("b"));
  registry->put("c", "C", lease);
  const auto changes = registry->changes("", revision, 1s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].entry.name, "c");
}

TEST(ManagerRegistry, RefusalIsAnErrorWithItsReason) {
  const test::ServedRegistry served({});
  const auto registry = served.open();
  try {
    registry->put("a", "", 12345);
    FAIL();
  } catch (const Unreachable&) {
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("lease 12345 has run out"), std::string::npos) << error.what();
  }
  registry->put("a", "A", 0);  // and it goes on
  EXPECT_EQ(registry->get("a")->text, "A");
}

}  // namespace
}  // namespace trifold
