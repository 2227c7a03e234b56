// From a job's plan to what each rank does: the mesh, the cut of the network into stages, the schedule. Everything that
// cannot be done is refused here, with what would work.
#pragma once

#include <span>
#include <vector>

#include "parallel/pipeline/pipeline_slots.h"
#include "parallel/pipeline/stage_cut.h"
#include "runtime/config/job.h"
#include "runtime/train/model.h"

namespace trifold {

struct ParallelPlan {
  Mesh mesh;
  Pipeline pipeline;                              // of every replica
  std::vector<std::optional<LayerSplit>> splits;  // of layers, as the plan's rules name them
  StageCut cut;                                   // of the network
  std::vector<int> layers_of_part;                // in the order of parts
  std::vector<bool> recomputes;                   // by part: whether it repeats its forward work
  int threads = 1;                                // of each rank
  GradientSync sync;                              // of replicas
  int zero = 0;                                   // stage of ZeRO
  std::size_t bucket_bytes = 0;                   // 0: chosen

  // What a rank's programs are compiled with, one a chunk of its stage.
  std::vector<ModelOptions> rank_options(const ModelOptions& job_options, const RankGroups* groups, int rank) const;
};

Mesh mesh_of(const PlanConfig& plan);

// The samples that batch norm may take together under a plan.
struct BatchParts {
  std::int64_t micro_batch = 1;  // samples of a micro-batch, on all replicas that share their statistics
  std::int64_t replicas = 1;     // that share them
};

// An input error where the job's batch does not divide. The network is not looked at.
BatchParts batch_parts(const Job& job);
// The largest group of samples that batch norm can take together under the plan, and no larger than `wanted`.
std::int64_t largest_group(const BatchParts& parts, std::int64_t wanted);

// `measured`: what layers cost, where the plan's stages are balanced by that; else empty.
ParallelPlan make_parallel_plan(const Job& job, const ModelOptions& job_options, std::span<const double> measured = {});

// Seconds of each layer, where the plan asks for them; else nothing. Other processes measure other times: one of them
// must speak for all.
std::vector<double> measure_for_stages(const Job& job, const ModelOptions& job_options);

// Whether batch norm can take `group` samples together.
bool can_take_group(std::int64_t group, const BatchParts& parts);

}  // namespace trifold
