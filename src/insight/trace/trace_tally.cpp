#include "insight/trace/trace_tally.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "core/error.h"
#include "insight/trace/trace_program.h"
#include "insight/work/median.h"

namespace trifold {
namespace {

constexpr std::size_t kGapsShown = 5;

}  // namespace

void TraceTally::Spent::add(const Spent& other) {
  steps += other.steps;
  seconds += other.seconds;
  loading += other.loading;
  work.copying += other.work.copying;
  work.idle += other.work.idle;
  work.messages += other.work.messages;
  work.collectives[0] += other.work.collectives[0];
  work.accumulating += other.work.accumulating;
}

void TraceTally::add(const TraceEvent& event) {
  ++found_.events;
  const auto needs = [&](bool there, const char* field) {
    if (!there) fail_runtime("event {} ('{}', phase {}) has no \"{}\"", found_.events, event.name, event.phase, field);
  };
  needs(!event.phase.empty(), "ph");
  needs(event.rank.has_value(), "pid");
  if (event.phase == "M") return add_name(event);
  needs(event.ts.has_value(), "ts");
  if (event.phase == "s" || event.phase == "f") {
    needs(event.id.has_value(), "id");
    return add_arrow_end(event);
  }
  if (event.phase != "X") return;
  needs(event.dur.has_value(), "dur");
  add_slice(event);
}

TraceSummary TraceTally::result(bool whole) {
  for (auto& [number, rank] : ranks_)
    if (whole || number != last_begun_) end_step(number, rank);
  std::ranges::sort(found_.gaps, std::greater(), &TraceGap::ms);
  for (const auto& [key, at] : open_) ++found_.arrows[key.first].unmatched;
  choose_round();
  double first = 0, last = 0;
  for (const auto& [number, rank] : ranks_) {
    const auto found = rank.rounds.find(round_);
    if (found == rank.rounds.end()) continue;
    const Spent& spent = found->second;
    TracedRank& of = found_.ranks.emplace_back(TracedRank{.rank = number, .name = rank.name, .steps = spent.steps});
    of.begin_ms = rank.begin_us / 1e3;
    of.end_ms = rank.end_us / 1e3;
    of.step_ms = in_ms(split_of(spent.seconds, spent.loading, static_cast<int>(spent.steps), {&spent.work, 1}));
    first = found_.ranks.size() == 1 ? of.begin_ms : std::min(first, of.begin_ms);
    last = std::max(last, of.end_ms);
    found_.steps = std::max(found_.steps, rank.steps);
  }
  found_.span_ms = last - first;
  for (const TracedRank& rank : found_.ranks) add_share(rank.step_ms, 1.0 / static_cast<double>(found_.ranks.size()));
  return std::move(found_);
}

void TraceTally::add_name(const TraceEvent& event) {
  Rank& rank = ranks_[*event.rank];
  if (event.name == "process_name") rank.name = event.arg_name;
  if (event.name == "thread_name" && event.arg_name == "compute") rank.compute_track = event.track;
}

// A step's slice comes before what is in it.
void TraceTally::add_slice(const TraceEvent& event) {
  Rank& rank = ranks_[*event.rank];
  const std::string& category = event.category;
  const double seconds = *event.dur / 1e6;
  if (category == TraceCategory::step) return begin_step(event, rank);
  if (rank.step_end_us < 0 || category == TraceCategory::layer || category == TraceCategory::aside) return;
  RankWork& work = rank.step.work;
  const bool computes = event.track == rank.compute_track;
  if (category == TraceCategory::input && !computes)
    rank.step.loading += seconds;
  else if (category == TraceCategory::input)
    work.copying += seconds;
  else if (category == TraceCategory::idle)
    work.idle += seconds;
  else if (category == TraceCategory::message)
    work.messages += seconds;
  else if (category == TraceCategory::communication)
    work.collectives[0] += seconds;
  else if (category == TraceCategory::update)
    work.accumulating += seconds;
  if (computes) look_for_gap(event, rank);
}

void TraceTally::begin_step(const TraceEvent& event, Rank& rank) {
  end_step(*event.rank, rank);
  last_begun_ = *event.rank;
  rank.step = {.steps = 1, .seconds = *event.dur / 1e6};
  rank.round = event.arg_round;
  rank.step_end_us = *event.ts + *event.dur;
  rank.busy_until_us = *event.ts;
  rank.busy_name = "the step's begin";
}

void TraceTally::end_step(int number, Rank& rank) {
  if (rank.step_end_us < 0) return;
  end_gap(number, rank, rank.step_end_us, "");
  const double begin_us = rank.step_end_us - 1e6 * rank.step.seconds;
  rank.begin_us = rank.steps == 0 ? begin_us : std::min(rank.begin_us, begin_us);
  rank.end_us = std::max(rank.end_us, rank.step_end_us);
  ++rank.steps;
  rank.rounds[rank.round].add(rank.step);
  rank.step_end_us = -1;
}

void TraceTally::look_for_gap(const TraceEvent& event, Rank& rank) {
  const bool waits = event.category == TraceCategory::idle || event.category == TraceCategory::message ||
                     event.category == TraceCategory::communication;
  if (waits) {
    if (*event.dur <= rank.wait_us) return;
    rank.wait_us = *event.dur;
    rank.wait_name = event.name;
    return;
  }
  end_gap(*event.rank, rank, *event.ts, event.name);
  rank.busy_until_us = *event.ts + *event.dur;
  rank.busy_name = event.name;
}

void TraceTally::end_gap(int number, Rank& rank, double at_us, const std::string& before) {
  const double ms = (at_us - rank.busy_until_us) / 1e3;
  const auto shortest = std::ranges::min_element(found_.gaps, {}, &TraceGap::ms);
  const bool is_full = found_.gaps.size() == kGapsShown;
  if (ms > 0 && (!is_full || shortest->ms < ms)) {
    if (is_full) found_.gaps.erase(shortest);
    found_.gaps.push_back({number, rank.busy_until_us / 1e3, ms, rank.busy_name, before, rank.wait_name});
  }
  rank.wait_us = 0;
  rank.wait_name.clear();
}

void TraceTally::add_arrow_end(const TraceEvent& event) {
  const auto [other, is_first] =
      open_.try_emplace({event.name, static_cast<std::int64_t>(*event.id)}, event.phase == "s", *event.ts);
  if (is_first) return;
  TraceArrows& arrows = found_.arrows[event.name];
  const auto [begins, at] = other->second;
  if (begins == (event.phase == "s"))
    fail_runtime("event {}: arrow {} has two {}", found_.events, other->first.second, begins ? "begins" : "ends");
  ++arrows.matched;
  arrows.most_backwards_us = std::max(arrows.most_backwards_us, begins ? at - *event.ts : *event.ts - at);
  open_.erase(other);
}

// As a comparison chooses the one that it shows.
void TraceTally::choose_round() {
  for (const auto& [number, rank] : ranks_) {
    if (rank.steps == 0) continue;
    std::vector<double> rates;
    std::vector<int> rounds;
    for (const auto& [round, spent] : rank.rounds) {
      rates.push_back(static_cast<double>(spent.steps) / spent.seconds);
      rounds.push_back(round);
    }
    round_ = rounds[median_of(rates)];
    found_.rounds = round_ < 0 ? 0 : static_cast<int>(rounds.size());
    found_.round = round_;
    return;
  }
}

StepSplit TraceTally::in_ms(const StepSplit& seconds) {
  return {1e3 * seconds.compute, 1e3 * seconds.exposed_comm, 1e3 * seconds.bubble, 1e3 * seconds.input,
          1e3 * seconds.optimizer};
}

void TraceTally::add_share(const StepSplit& of, double share) {
  found_.mean_ms.compute += of.compute * share;
  found_.mean_ms.exposed_comm += of.exposed_comm * share;
  found_.mean_ms.bubble += of.bubble * share;
  found_.mean_ms.input += of.input * share;
  found_.mean_ms.optimizer += of.optimizer * share;
}

}  // namespace trifold
