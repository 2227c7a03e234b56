// Reads a trace back, event by event, so that one of any size takes little memory: what each rank's steps were spent
// on, by the definitions of `compare`, whether every arrow has both its ends, and where ranks were longest without
// work.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <map>
#include <string>
#include <vector>

#include "insight/work/rank_work.h"

namespace trifold {

// A time in which a rank ran no kernel.
struct TraceGap {
  int rank = 0;
  double at_ms = 0;
  double ms = 0;
  std::string after = {};   // the kernel before it
  std::string before = {};  // the one after it; "" the step's end
  std::string in = {};      // the longest slice within: "receive"; "" none
};

struct TracedRank {
  int rank = 0;
  std::string name = {};
  std::int64_t steps = 0;  // that the split is of
  double begin_ms = 0;     // of its first step in the trace
  double end_ms = 0;       // of its last
  StepSplit step_ms = {};
};

// Arrows of one kind.
struct TraceArrows {
  std::int64_t matched = 0;
  std::int64_t unmatched = 0;
  double most_backwards_us = 0;  // by which one ends before it begins, at most
};

struct TraceSummary {
  std::int64_t events = 0;
  std::vector<TracedRank> ranks = {};
  StepSplit mean_ms = {};  // of the ranks
  std::int64_t steps = 0;  // in the trace
  double span_ms = 0;      // from the first one's begin to the last one's end
  // A comparison's trace has several rounds; the splits are of the one that `compare` shows.
  int rounds = 0;
  int round = 0;
  std::map<std::string, TraceArrows> arrows = {};  // by name: "message", "bucket"
  std::vector<TraceGap> gaps = {};                 // the longest, longest first
  std::map<std::string, double> notes = {};        // "clock_uncertainty_us"
  // Why the rest of the file could not be read, without the step that was begun last; "": all of it was.
  std::string fault = {};
};

// `name`: as errors call it. Throws where there is no step in it at all.
TraceSummary read_trace(std::istream& stream, const std::string& name);
TraceSummary read_trace(const std::filesystem::path& file);

std::string to_text(const TraceSummary& summary, const std::string& file);
std::string to_json_text(const TraceSummary& summary, const std::string& file);

// The trace of a run folder, or the file itself.
std::filesystem::path find_trace(const std::filesystem::path& run_or_file);

}  // namespace trifold
