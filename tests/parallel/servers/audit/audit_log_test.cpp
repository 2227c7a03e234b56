// What slices and clients write down is what the check reads.
#include "parallel/servers/audit/audit_log.h"

#include <gtest/gtest.h>

#include "parallel/servers/audit/audit_check.h"
#include "parallel/servers/server/served_slice.h"
#include "parallel/servers/slices/gradient_codec.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

using Mode = ConsistencyRules::Mode;

class AuditLogTest : public ::testing::Test {
 protected:
  void rules(Mode mode, int shards, int backup = 0) {
    rules_.mode = mode;
    rules_.backup = backup;
    rules_.participation.shards = shards;
  }
  SliceState first_state() const {
    return {.values = std::make_shared<std::vector<float>>(2, 10.0f),
            .version = 1,
            .applied = std::vector<std::int64_t>(static_cast<std::size_t>(rules_.shards()), 0)};
  }
  // Slice 7, as a server comes to own it.
  ServedSlice own(AuditLog& log, SliceState state, const AuditLog::Owner& owner) const {
    log.owns(7, state, owner);
    return ServedSlice({.rules = &rules_, .rule = rule_.get(), .update = update_.get(), .audit = &log, .number = 7},
                       std::move(state));
  }
  static void push(ServedSlice& slice, int shard, std::int64_t clock) {
    std::vector<std::byte> bytes;
    encode(std::vector<float>{1, 2}, {}, {}, bytes);
    slice.push({.shard = shard, .clock = clock, .rate = 1, .encoding = Payload::own(std::move(bytes))});
  }
  AuditResult check() const { return check_audit(read_audit(folder_.path())); }

  const testing::TemporaryDirectory folder_;
  ConsistencyRules rules_;
  std::unique_ptr<AggregationRule> rule_ = make_aggregation({});
  std::unique_ptr<SliceUpdate> update_ = make_optimizer_update({});
};

TEST_F(AuditLogTest, ASliceThatMovesIsFollowed) {
  for (const Mode mode : {Mode::sync, Mode::async}) {
    rules(mode, 2);
    const std::string name = mode == Mode::sync ? "sync" : "async";
    AuditLog one(folder_.path() / name, "server-1");
    AuditLog two(folder_.path() / name, "server-2");
    AuditLog worker(folder_.path() / name, "worker");
    ServedSlice slice = own(one, first_state(), {.epoch = 1, .from = "manager", .first = true});
    push(slice, 0, 0);
    push(slice, 1, 1);  // waits
    push(slice, 1, 0);
    ServedSlice moved = own(two, slice.state(), {.epoch = 2, .from = "server-1"});
    push(moved, 0, 1);
    push(moved, 0, 1);  // again
    push(moved, 1, 1);
    two.ends_with(7, moved.state(), 2);
    for (const ShardClock& told : {ShardClock{0, 0}, {1, 0}, {0, 1}, {1, 1}})
      worker.acknowledged(told, std::vector<int>{7}, false);
    const AuditResult good = check_audit(read_audit(folder_.path() / name));
    EXPECT_TRUE(good.faults.empty()) << good.faults.front();
    EXPECT_EQ(good.acknowledged, 4) << name;
    EXPECT_EQ(good.owners, 2) << name;
    EXPECT_EQ(good.versions, mode == Mode::sync ? 2 : 4) << name;
    worker.acknowledged({0, 2}, std::vector<int>{7}, false);
    EXPECT_EQ(check_audit(read_audit(folder_.path() / name)).faults.size(), 1u) << name;
  }
}

// Whoever was not waited for is told so, and is not in it.
TEST_F(AuditLogTest, ARoundSaysWhoIsInIt) {
  rules(Mode::sync, 3, 1);
  AuditLog server(folder_.path(), "server");
  AuditLog worker(folder_.path(), "worker");
  ServedSlice slice = own(server, first_state(), {.epoch = 1, .from = "manager", .first = true});
  push(slice, 2, 0);
  push(slice, 0, 0);
  push(slice, 1, 0);
  server.ends_with(7, slice.state(), 1);
  worker.acknowledged({0, 0}, std::vector<int>{7}, false);
  worker.acknowledged({1, 0}, std::vector<int>{7}, true);
  EXPECT_TRUE(check().faults.empty());
  EXPECT_EQ(check().late, 1);
  worker.acknowledged({1, 0}, std::vector<int>{7}, false);
  EXPECT_EQ(check().faults.size(), 1u);
}

// One number that is another is another state, wherever it is.
TEST_F(AuditLogTest, StatesThatDifferInAnythingAreNotTheSame) {
  rules(Mode::sync, 1);
  const auto with = [&](auto change) {
    SliceState state = first_state();
    state.states = {std::make_shared<std::vector<float>>(2, 0.5f)};
    change(state);
    return state;
  };
  const std::vector<SliceState> others = {
      with([](SliceState& state) { state.values = std::make_shared<std::vector<float>>(2, 10.001f); }),
      with([](SliceState& state) { state.states = {std::make_shared<std::vector<float>>(2, 0.0f)}; }),
      with([](SliceState& state) { state.updates = 1; }), with([](SliceState& state) { state.applied = {1}; })};
  AuditLog one(folder_.path(), "server-1");
  one.owns(7, with([](SliceState&) {}), {.epoch = 1, .from = "manager", .first = true});
  for (std::size_t i = 0; i < others.size(); ++i) {
    const auto epoch = static_cast<std::int64_t>(i) + 2;
    AuditLog two(folder_.path(), "server-2-" + std::to_string(i));
    two.owns(7, others[i], {.epoch = epoch, .from = "server-1"});
    two.ends_with(7, others[i], epoch);
    EXPECT_EQ(check().faults.size(), 1u) << i;  // made by nobody
  }
  AuditLog same(folder_.path(), "server-3");
  same.owns(7, with([](SliceState&) {}), {.epoch = 9, .from = "server-1"});
  same.ends_with(7, with([](SliceState&) {}), 9);
  EXPECT_TRUE(check().faults.empty());
}

TEST_F(AuditLogTest, AFolderThatCannotBeMadeIsSaid) {
  EXPECT_THROW(AuditLog("/proc/nowhere", "server"), Error);
}

}  // namespace
}  // namespace trifold
