// What the events of a trace add up to, one after the other: the parts of each rank's steps, arrows, gaps. It holds the
// step at hand of each rank and the arrows that still miss an end, whatever the length of the trace.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "insight/trace/trace_reader.h"

namespace trifold {

// As far as the tally wants to know it.
struct TraceEvent {
  std::string phase = {}, name = {}, category = {};
  std::optional<double> ts = {}, dur = {}, id = {};
  std::optional<int> rank = {};
  int track = 0;
  std::string arg_name = {};
  int arg_round = -1;
};

class TraceTally {
 public:
  // Throws where a field is missing that an event of its phase must have.
  void add(const TraceEvent& event);
  void note(const std::string& name, double value) { found_.notes[name] = value; }
  // `whole`: the file was read to its end. Else the step that was begun last may not be all there, and is left out.
  TraceSummary result(bool whole);

 private:
  // The steps of one round.
  struct Spent {
    std::int64_t steps = 0;
    double seconds = 0;
    double loading = 0;
    RankWork work = {};

    void add(const Spent& other);
  };
  struct Rank {
    std::string name = {};
    int compute_track = 0;
    std::int64_t steps = 0;
    double begin_us = 0, end_us = 0;
    std::map<int, Spent> rounds = {};
    Spent step = {};  // the one at hand
    int round = -1;   // its
    // Since the last kernel of the step at hand.
    double step_end_us = -1;  // -1: no step
    double busy_until_us = 0;
    std::string busy_name = {};
    std::string wait_name = {};
    double wait_us = 0;
  };

  void add_name(const TraceEvent& event);
  void add_slice(const TraceEvent& event);
  void begin_step(const TraceEvent& event, Rank& rank);
  void end_step(int number, Rank& rank);
  void look_for_gap(const TraceEvent& event, Rank& rank);
  void end_gap(int number, Rank& rank, double at_us, const std::string& before);
  void add_arrow_end(const TraceEvent& event);
  void choose_round();
  static StepSplit in_ms(const StepSplit& seconds);
  void add_share(const StepSplit& of, double share);

  TraceSummary found_;
  std::map<int, Rank> ranks_;
  int round_ = -1;
  int last_begun_ = -1;                                                           // the rank whose step it was
  std::map<std::pair<std::string, std::int64_t>, std::pair<bool, double>> open_;  // begins, at
};

}  // namespace trifold
