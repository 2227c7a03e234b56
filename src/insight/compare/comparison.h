// What a comparison found: one PlanResult a plan, and which of them is fastest.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "insight/compare/gradients.h"
#include "insight/compare/memory_use.h"
#include "insight/compare/step_timeline.h"
#include "insight/work/rank_work.h"
#include "insight/work/traffic.h"
#include "parallel/mesh.h"

namespace trifold {

struct PipelineResult {
  int micro_batches = 1;
  std::vector<double> stage_ms;  // of work, a step
  double predicted_bubble_ms = 0;
};

// Of a plan with parameter servers.
struct ServedResult {
  std::string mode = {};  // "ssp"
  int servers = 1;
  int workers = 1;
  std::optional<std::int64_t> staleness_bound = {};  // in clocks; of ssp
  std::int64_t staleness = 0;                        // of what any worker pulled, at most
  double mean_staleness = 0;                         // of the timed steps
  std::vector<double> sent = {};                     // by worker, bytes a step
  std::vector<double> received = {};                 // likewise
  std::vector<std::int64_t> peak_bytes = {};         // by worker: of the process, not of its model alone
};

// A loss or a gradient beside the single run's.
struct LossDifference {
  double relative = 0;
  std::int64_t step = 0;  // from 1; where that is largest
};

struct PlanResult {
  std::string plan;
  Mesh mesh;
  int threads = 1;  // of a rank

  double images_per_s = 0;  // the median round's
  double spread = 0;        // between the fastest and the slowest round, to the median
  double slowest = 0;       // images per second of that round
  double fastest = 0;
  double speedup = 1;     // to the single run
  double efficiency = 1;  // that, a core (or GPU) used
  StepSplit step_ms;      // of the median round
  bool divided = true;    // a GPU's step is not: all of it but the input is compute; workers': not at all

  std::vector<double> losses;  // after each step
  LossDifference loss_difference;
  GradientDifference gradient_difference;  // of the first step; not of a served plan

  std::vector<std::vector<Traffic>> traffic;  // by rank
  std::vector<MemoryUse> memory;              // by rank
  StepTimeline timeline;                      // of the last step
  std::optional<PipelineResult> pipeline;
  std::optional<ServedResult> served;  // then nothing is known of traffic, memory, timeline and arithmetic
  double arithmetic = 1;               // FLOPs of all ranks, to the single run's
  double repeated = 0;                 // of that: by stages that recompute
  std::string why;                     // it lost
  std::string trace;                   // file in the comparison's folder; "" none
};

struct Comparison {
  std::string job;
  std::int64_t batch = 0;
  std::int64_t steps = 0;
  int rounds = 0;
  int cores = 1;
  bool has_batch_norm = false;
  std::int64_t bn_group = 1;     // of every plan
  std::int64_t asked_group = 1;  // by the job
  std::vector<PlanResult> plans;
  // How far other last bits of the first weights move the single run, at most.
  double loss_rounding = 0;
  double gradient_rounding = 0;
  std::size_t single = 0;
  std::size_t winner = 0;
};

// --- the figures, from what was measured

LossDifference largest_difference(std::span<const double> losses, std::span<const double> reference);
// A rank's threads share the cores with the other ranks'. `cores`: what the single run has.
int cores_used(const PlanResult& plan, int cores);

// Throws a runtime error that names the first plan whose losses or gradients differ from the single run's by more.
// Gradients may differ by a few times what rounding alone makes of them: they jump where losses only bend.
void assert_equal(const Comparison& comparison, double tolerance);

}  // namespace trifold
