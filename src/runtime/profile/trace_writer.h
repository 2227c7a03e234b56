// The steps of all ranks as one file that Perfetto and chrome://tracing open: a process a rank, a slice a layer with
// its kernels inside, arrows from what a stage sends to where it is received, counters. Each step is written when it is
// over, so a long run does not grow in memory. Ranks share one clock: they are threads of one process.
#pragma once

#include <filesystem>
#include <fstream>
#include <span>

#include "runtime/executor/span_log.h"
#include "runtime/train/folded_model.h"

namespace trifold {

class TraceWriter {
 public:
  TraceWriter(const std::filesystem::path& file, const FoldedModel& model);

  struct Step {
    std::int64_t number = 0;
    Span::Clock::time_point begin = {};
    Span::Clock::time_point loaded = {};  // the batch was there
    Span::Clock::time_point end = {};
  };
  void write_step(const Step& step, std::span<const SpanLog> ranks);
  void finish();  // the file is whole; throws where it could not be written

 private:
  struct Event;
  void write(const Event& event);
  void write_rank(int rank, const Step& step, const std::vector<Span>& spans);
  void write_name(int rank, int track, const char* kind, const std::string& name);
  double us(Span::Clock::time_point time) const;

  std::filesystem::path file_;
  std::ofstream stream_;
  const FoldedModel& model_;
  Span::Clock::time_point zero_;
  bool first_ = true;
};

}  // namespace trifold
