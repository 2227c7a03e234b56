// Rules that choose one of the contributions (Krum) choose among whole models, of which every server sees some slices.
// So each server says how far the pushes of a clock are from each other in its slices, and the first server of the view
// adds that up, chooses, and tells all. What it chooses follows from the pushes; and slices remember by whose push
// their last round was completed, so that one that was complete on some servers only, when one was lost, is completed
// alike on the others.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/servers/rules/aggregation.h"
#include "parallel/servers/server/slice_state.h"
#include "parallel/servers/wire/message.h"

namespace trifold {

// What a server knows of the round that its slices are in.
struct RoundReport {
  std::int64_t clock = 0;              // the earliest that a slice of it has not completed
  RoundChoice last = {};               // the newest that a slice of it was completed with
  std::vector<int> shards = {};        // whose pushes of the clock are there in all slices, rising; empty: too few yet
  std::vector<double> distances = {};  // [n * n] squared, of those, summed over what is trained

  bool operator==(const RoundReport&) const = default;
};

void put_report(Message& message, const RoundReport& report);
// An Error says what is wrong: the message may come from anybody.
RoundReport take_report(const Message& message, int shards);

// The one who chooses, for one epoch.
class RoundChooser {
 public:
  struct Args {
    const AggregationRule* rule = nullptr;
    std::vector<std::string> owners = {};  // ids of the servers that have slices
    int needed = 1;                        // contributions
  };
  explicit RoundChooser(Args args) : args_(std::move(args)) {}

  // The choice that follows, if one does that was not made before.
  std::optional<RoundChoice> take(const std::string& server, RoundReport report);
  // The one that was made last, by which who did not hear of it is told again.
  const RoundChoice& last() const { return last_; }

 private:
  std::optional<RoundChoice> choose() const;

  Args args_;
  std::map<std::string, RoundReport> reports_;  // by owner, the newest
  RoundChoice last_;
};

}  // namespace trifold
