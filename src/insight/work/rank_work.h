// What the time of a rank's steps is spent on, from the seconds of its programs' nodes.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "parallel/pipeline/pipeline_timeline.h"
#include "runtime/train/parallel_model.h"

namespace trifold {

inline constexpr int kPhases = 4;

// Seconds of a rank, added up over steps.
struct RankWork {
  std::array<double, kPhases> kernels = {};      // by phase, without what follows
  std::array<double, kPhases> collectives = {};  // by phase: the exchange and the wait for the others in it
  double repeating = 0;                          // of both: forward work, in backward work
  double accumulating = 0;                       // gradients over micro-batches
  double messages = 0;  // between stages: their copies too, but most of it is waiting for the other stage
  double copying = 0;   // batches
  double idle = 0;      // before its part of a step, and after it

  RankWork since(const RankWork& before) const;
};

// Of every rank, since its model was made. Of the steps that were timed.
std::vector<RankWork> work_of_ranks(const ParallelModel& model);

// A step's time, mean of the ranks. The parts add up to the step.
struct StepSplit {
  double compute = 0;
  double exposed_comm = 0;
  double bubble = 0;  // waiting with nothing to do
  double input = 0;   // waiting for the loader, and copying the batch
  double optimizer = 0;
  double undivided = 0;  // not known to be any of these

  double sum() const { return compute + exposed_comm + bubble + input + optimizer + undivided; }
};

// `seconds` of `steps` steps, `loading` of them spent waiting for the loader. What is in no node is compute: the walk
// from node to node.
StepSplit split_of(double seconds, double loading, int steps, std::span<const RankWork> ranks);

// A pipeline's steps as its schedule makes them of the work that was measured, if nothing else held it up.
struct PipelineForecast {
  std::vector<double> stage_seconds;  // of work, a step: without waiting
  double bubble = 0;                  // seconds a step, mean of the stages
};

PipelineForecast forecast(const Pipeline& pipeline, const Mesh& mesh, int steps, std::span<const RankWork> ranks);

}  // namespace trifold
