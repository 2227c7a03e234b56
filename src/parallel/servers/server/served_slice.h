// A slice that a server owns: takes each push once, in the order that the consistency asks for, and says when its
// values are new enough for whom. Knows nothing of messages.
//   sync: the pushes of one clock become one update when all shards' are there (but for `backup`, the slowest, and but
//   for those that do not take part in the round), and where the rule chooses one of them, when it has
//   (round_choice.h).
//   async, ssp: every push is an update of its own, of its share; ssp: values are given out only to shards that are at
//   most `staleness` clocks ahead of the slowest.
// Every `cut_every` clocks the state is kept in which all shards have done exactly so many; pushes beyond it wait for
// it. Of a tensor that is not synchronised in every clock (sync_turns.h) pushes come in its turns only, and in between
// it stays as it is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "parallel/servers/audit/audit_log.h"
#include "parallel/servers/participation.h"
#include "parallel/servers/rules/aggregation.h"
#include "parallel/servers/server/slice_state.h"
#include "parallel/servers/slices/slice.h"
#include "parallel/servers/updates/slice_update.h"
#include "parallel/servers/wire/message.h"

namespace trifold {

struct ConsistencyRules {
  enum class Mode { sync, async, ssp } mode = Mode::sync;
  std::int64_t staleness = 0;  // ssp
  int backup = 0;              // sync: shards that a round does not wait for
  Participation participation = {};
  std::optional<std::int64_t> stop_clock = {};  // pushes of it, and later ones, are not taken
  std::vector<std::int64_t> cut_every = {};     // clocks: cuts are at the multiples of each of these

  int shards() const { return participation.shards; }
  int needed() const;  // sync: pushes that complete a round
  bool cuts_at(std::int64_t clock) const { return clock > 0 && last_cut(clock) == clock; }
  std::int64_t last_cut(std::int64_t clock) const;  // at it or before; 0: none
};

struct SlicePush {
  int shard = 0;
  // Not empty: what the rule made of the pushes of these shards, rising from `shard` on, with their weights added.
  std::vector<int> shards = {};
  std::int64_t clock = 0;
  double weight = 1;
  double rate = 0;  // learning
  Payload encoding = {};

  std::span<const int> all_shards() const { return shards.empty() ? std::span(&shard, 1) : std::span(shards); }
};

class ServedSlice {
 public:
  struct Args {
    const ConsistencyRules* rules = nullptr;
    const AggregationRule* rule = nullptr;
    const SliceUpdate* update = nullptr;
    ServedTensor tensor = {};   // it belongs to
    AuditLog* audit = nullptr;  // is told what is in each version
    int number = 0;             // of the slice, there
  };
  ServedSlice(Args args, SliceState state);

  enum class Taken {
    waits,    // for others of its clock, or for earlier ones
    applied,  // it is in the values, and others may be too that had waited
    repeated,
    late,     // its round was completed without it
    too_far,  // nobody can be that far ahead
    // Of several shards, some of whose pushes wait here already: it cannot be taken, nor left, as a whole. Sent shard
    // by shard, each is taken or here already.
    overlaps,
  };
  // An Error: the encoding is none of this slice, or it has no pushes of several shards.
  Taken push(SlicePush push);

  // Whether a shard may compute its `clock` with these values.
  bool ready_for(std::int64_t clock) const;
  // How many clocks ago the oldest push was due that is not in them; 0: all are.
  std::int64_t staleness_for(std::int64_t clock) const;
  // What it is to compute it with. In sync one that repeats the last clock, in place of a worker that is lost, gets
  // what that one had: others may have completed the round here, though not of every slice.
  const std::vector<float>& values_for(std::int64_t clock) const;
  // Whether the pushes of a shard before `clock`, and the one of it, are in the values or never will be.
  bool contains(int shard, std::int64_t clock) const { return state_.applied[static_cast<std::size_t>(shard)] > clock; }

  // Of a rule that chooses among whole models: what is here of the round that least() is. Its pushes wait for a choice.
  std::vector<int> candidates() const;  // shards, rising; none while the round may not be completed
  // Adds the squares of the distances between these candidates' pushes, if the slice is trained, to [n * n].
  void add_distances(std::span<const int> shards, std::span<double> distances) const;
  bool choose(const RoundChoice& choice);  // true: the round was completed

  const SliceState& state() const { return state_; }
  // Whether all shards have done so many clocks.
  bool reached(std::int64_t cut) const { return round() >= cut; }
  // As it was when all shards had done exactly so many clocks. Null: it is not kept any more, or not reached yet.
  const SliceState* state_at(std::int64_t cut) const;
  // Nobody will ask for cuts up to this clock any more. True: pushes had waited for it.
  bool release(std::int64_t clock);
  bool rules_changed() { return release(-1); }  // likewise
  std::int64_t elements() const { return static_cast<std::int64_t>(state_.values->size()); }

 private:
  using Clock = std::map<int, SlicePush>;  // by (first) shard; of those of several shards none has another's

  void check_combined(const SlicePush& push) const;
  std::size_t waiting_of(const SlicePush& push) const;
  bool advance();
  bool complete_round();
  bool apply_next_of(int shard);
  const SlicePush* combine_chosen(const Clock& pushes);
  void apply(std::span<const float> push, double rate);
  bool moves_on() const { return !args_.tensor.trained && args_.tensor.keeps > 0; }
  void move_on(std::span<const Contribution> statistics);
  std::span<const float> numbers(const SlicePush& push, std::vector<float>& room) const;
  void changed();
  void keep_cut();
  bool may_pass(int shard, std::int64_t clock) const;
  std::int64_t next_of(int shard) const;  // the clock whose push comes next
  std::int64_t round() const;             // likewise, of all shards

  Args args_;
  SliceState state_;
  RoundChoice choice_;                     // the newest that was told
  std::map<std::int64_t, Clock> waiting_;  // by clock
  std::vector<ShardClock> in_version_;     // for the audit: what the next one is made of
  std::vector<float> combined_;
  std::vector<std::vector<float>> rooms_;
};

}  // namespace trifold
