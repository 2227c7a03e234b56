// The steps of all ranks as one file that Perfetto and chrome://tracing open: a process a rank; tracks of its steps,
// its work (a slice a layer with its kernels inside) and the sums that go on beside it; arrows from what a stage sends
// to where it is received, and from the gradients of a bucket to their sum; counters. Each step is written when it is
// over, so a long run does not grow in memory.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "insight/trace/trace_program.h"
#include "runtime/executor/span_log.h"

namespace trifold {

// When a process's ranks did a step.
struct TraceStep {
  using Time = Span::Clock::time_point;

  std::int64_t number = 0;
  std::int32_t round = -1;  // of a comparison; -1: none
  Time begin = {};
  Time loaded = {};  // the batch was there
  Time worked = {};  // all ranks here had done their part
  Time end = {};
  double loss_scale = 0;  // 0: the loss is not scaled
};

// One rank's step.
struct TracedStep {
  TraceStep step = {};
  std::span<const Span> spans = {};
};

class TraceWriter {
 public:
  // `zero`: the time that the trace counts from.
  TraceWriter(const std::filesystem::path& file, std::vector<TraceRank> ranks, Span::Clock::time_point zero);

  // One entry a rank, in the order that the constructor was given.
  void write_step(std::span<const TracedStep> ranks);
  // Of the whole trace, among its "otherData".
  void note(const std::string& name, double value) { notes_[name] = value; }
  // The waits of processes for each other after a step are idle time; in one process there are none.
  void set_several_processes() { after_work_ = TraceCategory::idle; }
  void finish();  // the file is whole; throws where it could not be written

 private:
  using Time = Span::Clock::time_point;

  // What is written of a node again and again, made once.
  struct NodeText {
    std::string slice = {};   // from the phase to the micro-batch
    std::string settle = {};  // the same of the wait until what it sent has arrived
    std::string group = {};   // of the slice around it; "" none
  };
  struct RankText {
    TraceRank rank = {};
    std::vector<std::vector<NodeText>> nodes = {};                      // by chunk and node
    std::vector<std::vector<std::ptrdiff_t>> last_span = {};            // of each node in this step; -1: none
    std::map<std::pair<std::int16_t, std::int32_t>, double> kept = {};  // by chunk and micro-batch under way
    double memory = -1;                                                 // as it was written last
  };
  // A message, of which one side or both have been seen in this step.
  struct Message {
    std::int64_t id = 0;
    std::size_t sender = 0;
    double bytes = 0;
    std::int64_t sent_ns = -1;
    std::int64_t received_ns = -1;
  };
  struct InFlight {
    std::int64_t at_ns = 0;
    std::size_t rank = 0;
    double bytes = 0;  // more, or less
  };

  std::int64_t ns(Time time) const;
  void describe(RankText& rank) const;
  void write_name(int rank, int track, const char* kind, const std::string& name);
  void write_rank(std::size_t index, const TracedStep& traced);
  void write_groups(const RankText& rank, const TracedStep& traced, std::size_t& grouped, std::size_t at);
  void write_exchange(std::size_t index, const TracedStep& traced, std::size_t at, std::vector<std::size_t>& aside);
  void write_memory(RankText& rank, const Span& span);
  void write_in_flight();
  void write_arrow(char phase, const char* name, std::int64_t id, int rank, std::int64_t at_ns);
  void write_counter(const char* name, const char* series, int rank, std::int64_t at_ns, double value);
  void write_slice(std::string_view text, std::int64_t begin_ns, std::int64_t end_ns);
  void begin_event(std::int64_t at_ns);
  void flush();

  std::filesystem::path file_;
  std::ofstream stream_;
  fmt::memory_buffer buffer_;
  std::vector<RankText> ranks_;
  Time zero_;
  const char* after_work_ = TraceCategory::host;
  bool first_ = true;
  std::int64_t arrows_ = 0;                       // so far: they are numbered
  std::map<std::vector<int>, Message> messages_;  // of this step
  std::vector<InFlight> in_flight_;               // of this step
  std::map<std::string, double> notes_;
};

}  // namespace trifold
