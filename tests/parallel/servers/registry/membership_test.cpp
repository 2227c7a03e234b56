// A member that lives, is cut off, is declared dead, and follows what the manager says.
#include "parallel/servers/registry/membership.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "parallel/servers/registry/election.h"
#include "parallel/servers/registry/local_registry.h"
#include "parallel/servers/registry/registry_service.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;

// Passes calls on, unless the line is cut.
class CuttableRegistry final : public Registry {
 public:
  // `slow_puts`: so many, with a lease, come when it has run out.
  CuttableRegistry(std::shared_ptr<SharedRegistryStore> shared, const std::atomic<bool>& cut,
                   std::atomic<int>& slow_puts)
      : registry_(std::move(shared)), cut_(cut), slow_puts_(slow_puts) {}

  LeaseId grant(std::chrono::milliseconds lives) override { return line().grant(lives); }
  bool keep_alive(LeaseId lease) override { return line().keep_alive(lease); }
  void revoke(LeaseId lease) override { line().revoke(lease); }
  std::optional<RegistryEntry> get(const std::string& name) override { return line().get(name); }
  std::vector<RegistryEntry> list(const std::string& prefix) override { return line().list(prefix); }
  std::optional<std::int64_t> put_if(const std::string& name, std::int64_t seen, const std::string& text,
                                     LeaseId lease) override {
    return line().put_if(name, seen, text, lease);
  }
  void put(const std::string& name, const std::string& text, LeaseId lease) override {
    if (lease != 0 && slow_puts_ > 0) {
      --slow_puts_;
      registry_.put("slow", "", lease);
      while (registry_.get("slow")) std::this_thread::sleep_for(5ms);
    }
    line().put(name, text, lease);
  }
  void remove(const std::string& name) override { line().remove(name); }
  std::vector<RegistryChange> changes(const std::string& prefix, std::int64_t& revision,
                                      std::chrono::milliseconds timeout) override {
    return line().changes(prefix, revision, std::min(timeout, 50ms));
  }

 private:
  Registry& line() {
    if (cut_) throw Unreachable("the line is cut");
    return registry_;
  }

  LocalRegistry registry_;
  const std::atomic<bool>& cut_;
  std::atomic<int>& slow_puts_;
};

class MembershipTest : public ::testing::Test {
 protected:
  MembershipTest()
      : ticker_([this] {
          RegistryService service(shared_);
          while (!stop_) {
            service.tick(std::chrono::steady_clock::now());
            std::this_thread::sleep_for(10ms);
          }
        }) {}
  ~MembershipTest() override {
    stop_ = true;
    ticker_.join();
  }

  MembershipOptions member(const std::string& id) {
    return {.self = {.id = id, .role = "server", .address = "tcp://127.0.0.1:1", .public_key = ""},
            .lease = kLease,
            .wake = [this] { ++wakes_; }};
  }
  RegistryFactory factory() {
    return [this] { return std::make_unique<CuttableRegistry>(shared_, cut_, slow_puts_); };
  }
  template <class Condition>
  static bool eventually(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(5ms);
    return condition();
  }

  static constexpr auto kLease = 800ms;

  std::shared_ptr<SharedRegistryStore> shared_ = std::make_shared<SharedRegistryStore>();
  LocalRegistry registry_{shared_};
  std::atomic<bool> cut_ = false;
  std::atomic<int> slow_puts_ = 0;
  std::atomic<int> wakes_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread ticker_;
};

TEST_F(MembershipTest, IsThereAsLongAsItRenews) {
  Membership member(this->member("s1"), factory());
  EXPECT_FALSE(member.lease_valid());
  member.join();
  EXPECT_TRUE(member.lease_valid());
  std::this_thread::sleep_for(3 * kLease);
  EXPECT_TRUE(eventually([&] { return member.lease_valid(); }));  // a machine that stood still renews a moment later
  ASSERT_TRUE(registry_.get("members/s1"));
  EXPECT_EQ(member_from_text(registry_.get("members/s1")->text), this->member("s1").self);
  member.leave();
  EXPECT_FALSE(member.lease_valid());
  EXPECT_FALSE(registry_.get("members/s1"));
}

TEST_F(MembershipTest, WhoIsCutOffKnowsBeforeTheOthersTakeItForDead) {
  Membership member(this->member("s1"), factory());
  member.join();
  cut_ = true;
  while (registry_.get("members/s1")) std::this_thread::yield();
  EXPECT_FALSE(member.lease_valid());
}

TEST_F(MembershipTest, WhoWasDeclaredDeadStaysSoUntilItJoinsAnew) {
  Membership member(this->member("s1"), factory());
  member.join();
  const LeaseId first = member.lease();
  cut_ = true;
  ASSERT_TRUE(eventually([&] { return !registry_.get("members/s1"); }));
  cut_ = false;
  ASSERT_TRUE(eventually([&] { return member.lease() == 0; }));
  EXPECT_TRUE(eventually([&] { return wakes_ >= 1; }));  // it is woken a moment after the lease is gone
  std::this_thread::sleep_for(kLease);
  EXPECT_FALSE(member.lease_valid());
  EXPECT_FALSE(registry_.get("members/s1"));
  // A lease is so short here that it may run out between two lines of a test whose process is stopped.
  EXPECT_TRUE(eventually([&] { return member.try_join() && member.lease_valid() && registry_.get("members/s1"); }));
  EXPECT_NE(member.lease(), first);
}

TEST_F(MembershipTest, WhoCannotReachTheRegistryTriesAgain) {
  Membership member(this->member("s1"), factory());
  cut_ = true;
  EXPECT_FALSE(member.try_join());
  EXPECT_FALSE(member.lease_valid());
  cut_ = false;
  EXPECT_TRUE(member.try_join());
  EXPECT_TRUE(registry_.get("members/s1"));
}

// Its process was stopped between the two calls of join().
TEST_F(MembershipTest, WhoseLeaseRunsOutWhileItJoinsTriesAgain) {
  slow_puts_ = 1;
  Membership member(this->member("s1"), factory());
  EXPECT_FALSE(member.try_join());
  EXPECT_TRUE(member.try_join());
  EXPECT_TRUE(registry_.get("members/s1"));
}

TEST_F(MembershipTest, ShortCutHarmsNobody) {
  Membership member(this->member("s1"), factory());
  member.join();
  cut_ = true;
  std::this_thread::sleep_for(kLease / 3);
  cut_ = false;
  std::this_thread::sleep_for(2 * kLease);
  EXPECT_TRUE(eventually([&] { return member.lease_valid(); }));
}

TEST_F(MembershipTest, WithoutAManagerNobodyIsReplaced) {
  MembershipOptions options = member("s1");
  options.valid_while_unreachable = true;
  Membership member(options, factory());
  member.join();
  cut_ = true;
  std::this_thread::sleep_for(2 * kLease);
  EXPECT_TRUE(member.lease_valid());
  cut_ = false;  // back, and it says that the lease has run out
  EXPECT_TRUE(eventually([&] { return !member.lease_valid(); }));
}

TEST_F(MembershipTest, FollowsViewAndJob) {
  registry_.put(kJobName, "{\"a\":1}", 0);
  Membership member(this->member("s1"), factory());
  ASSERT_TRUE(eventually([&] { return member.job() != nullptr; }));
  EXPECT_EQ(*member.job(), "{\"a\":1}");
  EXPECT_EQ(member.view(), nullptr);
  View view{.version = 4, .epoch = 2, .workers = {"w1"}};
  registry_.put(kViewName, to_text(view), 0);
  ASSERT_TRUE(eventually([&] { return member.view() != nullptr; }));
  EXPECT_EQ(*member.view(), view);
  cut_ = true;
  view.version = 5;
  registry_.put(kViewName, to_text(view), 0);
  std::this_thread::sleep_for(100ms);
  cut_ = false;
  EXPECT_TRUE(eventually([&] { return member.view()->version == 5; }));
  const auto news = member.news();
  registry_.put(kViewName, "damaged", 0);
  registry_.put("members/w9", "", 0);
  EXPECT_TRUE(eventually([&] { return member.news() > news; }));
  EXPECT_EQ(member.view()->version, 5);
  EXPECT_GE(wakes_, 4);
}

TEST_F(MembershipTest, OneOfManyLeadsAndTheNextWhenItIsGone) {
  std::atomic<int> leaders = 0, most = 0, terms = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      LocalRegistry registry(shared_);
      const MemberInfo self{.id = "m" + std::to_string(i), .role = "manager", .address = {}, .public_key = {}};
      const LeaseId lease = registry.grant(30s);
      while (!Election(self).campaign(registry, lease, 50ms)) continue;
      most = std::max<int>(most, ++leaders);
      EXPECT_EQ(Election::leader(registry)->id, self.id);
      std::this_thread::sleep_for(30ms);
      --leaders;
      ++terms;
      registry.revoke(lease);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(terms, 3);
  EXPECT_FALSE(Election::leader(registry_));
}

TEST_F(MembershipTest, LeaderThatAsksAgainLeadsByItsNewLease) {
  const Election election({.id = "m1", .role = "manager", .address = {}, .public_key = {}});
  const LeaseId first = registry_.grant(30s), second = registry_.grant(30s);
  EXPECT_FALSE(election.campaign(registry_, 0, 0ms));  // without a lease
  EXPECT_TRUE(election.campaign(registry_, first, 0ms));
  EXPECT_TRUE(election.campaign(registry_, second, 0ms));
  registry_.revoke(first);
  EXPECT_TRUE(Election::leader(registry_));
  const Election other({.id = "m2", .role = "manager", .address = {}, .public_key = {}});
  EXPECT_FALSE(other.campaign(registry_, registry_.grant(30s), 20ms));
  registry_.revoke(second);
  EXPECT_TRUE(other.campaign(registry_, registry_.grant(30s), 0ms));
}

}  // namespace
}  // namespace trifold
