#include "runtime/profile/trace_reader.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/compare/comparison.h"
#include "runtime/core/error.h"
#include "runtime/profile/trace_program.h"

namespace trifold {
namespace {

constexpr std::size_t kGapsShown = 5;

struct TraceEvent {
  std::string phase = {}, name = {}, category = {};
  std::optional<double> ts = {}, dur = {}, id = {};
  std::optional<int> rank = {};
  int track = 0;
  std::string arg_name = {};
  int arg_round = -1;
};

// What the events of the trace add up to.
class Tally {
 public:
  void add(const TraceEvent& event) {
    ++found_.events;
    const auto needs = [&](bool there, const char* field) {
      if (!there)
        fail_runtime("event {} ('{}', phase {}) has no \"{}\"", found_.events, event.name, event.phase, field);
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

  void note(const std::string& name, double value) { found_.notes[name] = value; }

  TraceSummary result() {
    for (auto& [number, rank] : ranks_) end_step(number, rank);
    std::ranges::sort(found_.gaps, std::greater(), &TraceGap::ms);
    for (const auto& [key, at] : open_) ++found_.arrows[key.first].unmatched;
    choose_round();
    double first = 0, last = 0;
    for (const auto& [number, rank] : ranks_) {
      if (rank.steps == 0) continue;
      const Spent& spent = rank.rounds.at(round_);
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

 private:
  // The steps of one round.
  struct Spent {
    std::int64_t steps = 0;
    double seconds = 0;
    double loading = 0;
    RankWork work = {};
  };
  struct Rank {
    std::string name = {};
    int compute_track = 0;
    std::int64_t steps = 0;
    double begin_us = 0, end_us = 0;
    std::map<int, Spent> rounds = {};
    Spent* spent = nullptr;  // of the step at hand
    // Since the last kernel of the step at hand.
    double step_end_us = -1;  // -1: no step
    double busy_until_us = 0;
    std::string busy_name = {};
    std::string wait_name = {};
    double wait_us = 0;
  };

  void add_name(const TraceEvent& event) {
    Rank& rank = ranks_[*event.rank];
    if (event.name == "process_name") rank.name = event.arg_name;
    if (event.name == "thread_name" && event.arg_name == "compute") rank.compute_track = event.track;
  }

  // A step's slice comes before what is in it.
  void add_slice(const TraceEvent& event) {
    Rank& rank = ranks_[*event.rank];
    const std::string& category = event.category;
    const double seconds = *event.dur / 1e6;
    if (category == TraceCategory::step) return begin_step(event, rank);
    if (rank.spent == nullptr || category == TraceCategory::layer || category == TraceCategory::aside) return;
    RankWork& work = rank.spent->work;
    const bool computes = event.track == rank.compute_track;
    if (category == TraceCategory::input && !computes)
      rank.spent->loading += seconds;
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

  void begin_step(const TraceEvent& event, Rank& rank) {
    end_step(*event.rank, rank);
    const double end = *event.ts + *event.dur;
    rank.begin_us = rank.steps == 0 ? *event.ts : std::min(rank.begin_us, *event.ts);
    rank.end_us = std::max(rank.end_us, end);
    ++rank.steps;
    rank.spent = &rank.rounds[event.arg_round];
    ++rank.spent->steps;
    rank.spent->seconds += *event.dur / 1e6;
    rank.step_end_us = end;
    rank.busy_until_us = *event.ts;
    rank.busy_name = "the step's begin";
  }

  void end_step(int number, Rank& rank) {
    if (rank.step_end_us >= 0) end_gap(number, rank, rank.step_end_us, "");
    rank.step_end_us = -1;
  }

  void look_for_gap(const TraceEvent& event, Rank& rank) {
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

  void end_gap(int number, Rank& rank, double at_us, const std::string& before) {
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

  void add_arrow_end(const TraceEvent& event) {
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
  void choose_round() {
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

  static StepSplit in_ms(const StepSplit& seconds) {
    return {1e3 * seconds.compute, 1e3 * seconds.exposed_comm, 1e3 * seconds.bubble, 1e3 * seconds.input,
            1e3 * seconds.optimizer};
  }

  void add_share(const StepSplit& of, double share) {
    found_.mean_ms.compute += of.compute * share;
    found_.mean_ms.exposed_comm += of.exposed_comm * share;
    found_.mean_ms.bubble += of.bubble * share;
    found_.mean_ms.input += of.input * share;
    found_.mean_ms.optimizer += of.optimizer * share;
  }

  TraceSummary found_;
  std::map<int, Rank> ranks_;
  int round_ = -1;
  std::map<std::pair<std::string, std::int64_t>, std::pair<bool, double>> open_;  // begins, at
};

// Hears the file's tokens one after the other. Events lie in an array: the root, or its "traceEvents".
class TraceListener : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TraceListener(Tally& tally) : tally_(tally) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool binary(binary_t&) override { return true; }

  bool string(string_t& value) override {
    if (at_event()) {
      if (field_ == "ph")
        event_.phase.swap(value);
      else if (field_ == "name")
        event_.name.swap(value);
      else if (field_ == "cat")
        event_.category.swap(value);
    } else if (at_args() && key_ == "name") {
      event_.arg_name.swap(value);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    ++depth_;
    if (depth_ == events_depth_ + 1 && in_events_) event_ = {};
    return true;
  }
  bool end_object() override {
    if (at_event()) tally_.add(event_);
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    if (depth_ == 1 || (depth_ == 2 && root_key_ == "traceEvents")) {
      in_events_ = true;
      events_depth_ = depth_;
    }
    return true;
  }
  bool end_array() override {
    if (depth_ == events_depth_) in_events_ = false;
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) root_key_ = name;
    if (at_event()) field_ = name;
    key_.swap(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::json::exception& error) override {
    const std::string_view why = error.what();
    const std::size_t line_at = why.find("at line ");
    const std::string_view line =
        line_at == why.npos ? "" : why.substr(line_at + 8, why.find(',', line_at) - line_at - 8);
    const bool ended = why.find("unexpected end of input") != why.npos || last_token.find("<EOF>") != last_token.npos ||
                       why.find("missing closing quote") != why.npos;
    fault_ =
        fmt::format("{} byte {}, line {}", ended ? "ends in the middle, at" : "is no JSON any more at", position, line);
    return false;
  }

  const std::string& fault() const { return fault_; }

 private:
  bool at_event() const { return in_events_ && depth_ == events_depth_ + 1; }
  bool at_args() const { return in_events_ && depth_ == events_depth_ + 2 && field_ == "args"; }

  bool number(double value) {
    if (at_event()) {
      if (field_ == "ts")
        event_.ts = value;
      else if (field_ == "dur")
        event_.dur = value;
      else if (field_ == "pid")
        event_.rank = static_cast<int>(value);
      else if (field_ == "tid")
        event_.track = static_cast<int>(value);
      else if (field_ == "id")
        event_.id = value;
    } else if (at_args() && key_ == "round") {
      event_.arg_round = static_cast<int>(value);
    } else if (!in_events_ && depth_ == 2 && root_key_ == "otherData") {
      tally_.note(key_, value);
    }
    return true;
  }

  Tally& tally_;
  TraceEvent event_;
  int depth_ = 0;
  int events_depth_ = 0;
  bool in_events_ = false;
  std::string root_key_, field_, key_;
  std::string fault_;
};

}  // namespace

TraceSummary read_trace(std::istream& stream, const std::string& name) {
  Tally tally;
  TraceListener listener(tally);
  std::string fault;
  try {
    nlohmann::json::sax_parse(stream, &listener);
    fault = listener.fault();
  } catch (const Error& error) {
    fault = fmt::format("is no trace of this program before byte {}: {}", static_cast<std::int64_t>(stream.tellg()),
                        error.what());
  }
  TraceSummary found = tally.result();
  found.fault = fault;
  if (found.steps == 0 && fault.empty())
    fail_input("'{}' has {} events, but no step: no slice of the category \"{}\"", name, found.events,
               TraceCategory::step);
  if (found.steps == 0) fail_input("'{}' {}; no step was read before that", name, fault);
  return found;
}

TraceSummary read_trace(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail_input("cannot read '{}'", file.string());
  return read_trace(stream, file.string());
}

std::filesystem::path find_trace(const std::filesystem::path& run_or_file) {
  namespace fs = std::filesystem;
  if (!fs::exists(run_or_file)) fail_input("there is no '{}'", run_or_file.string());
  if (!fs::is_directory(run_or_file)) return run_or_file;
  if (fs::exists(run_or_file / "trace.json")) return run_or_file / "trace.json";
  std::set<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_or_file)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("trace-") && name.ends_with(".json")) found.insert(entry.path().string());
  }
  if (found.size() == 1) return *found.begin();
  if (found.empty())
    fail_input("'{}' has no trace; `trifold profile` and `trifold compare --trace` write one", run_or_file.string());
  fail_input("'{}' has several traces, name one: {}", run_or_file.string(), fmt::join(found, ", "));
}

}  // namespace trifold
