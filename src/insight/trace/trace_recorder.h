// Writes the trace of a model's steps, in one process or several. Ranks of one process share a clock, and each step is
// written when it is over. Of several processes each notes its steps in a file of its own; at the end process 0 joins
// them, step by step, with the times of all by its own clock.
#pragma once

#include <filesystem>
#include <memory>

#include "insight/trace/step_file.h"
#include "insight/trace/trace_writer.h"
#include "parallel/processes/time_offset.h"
#include "parallel/world.h"

namespace trifold {

class TraceRecorder {
 public:
  // In a world every process makes one at the same time, and finishes it so; process 0 writes the file.
  TraceRecorder(const std::filesystem::path& file, const ParallelModel& model, const World* world = nullptr);

  void add(const TraceStep& step, std::span<const SpanLog> ranks);
  // Returns by how much times of different processes may be wrong against each other at most, in microseconds: known to
  // process 0.
  double finish();

 private:
  double join();

  const World* world_;
  std::unique_ptr<TraceWriter> writer_;  // of process 0
  std::unique_ptr<StepFile> steps_;      // of one of several processes
  std::vector<ClockReading> first_clocks_;
  std::vector<TracedStep> traced_;
};

}  // namespace trifold
