// What an update has to know about all gradients before it may begin: their norm (clipping), whether all are finite
// (loss scaling), and the norms of each parameter (LARS). The host's side: the memory it takes. gradient_norm.cuh is
// what the kernel does with it; nothing returns to the host.
#pragma once

#include <cstddef>
#include <optional>

#include "core/cuda/cuda_device.h"
#include "kernels/cuda/cooperative.h"
#include "kernels/cuda/segment_table.h"
#include "kernels/ops/optimizer.h"

namespace trifold::cuda {

// How the update is to be done.
struct UpdateDecision {
  double gradient_scale;  // gradients are to be multiplied by this: unscaled and clipped
  long long updates;      // applied so far, this one included
  int skip;               // leave everything as it is
};

// All pointers are to device memory.
struct NormArgs {
  const UpdateChunk* chunks;
  const SegmentChunks* segments;
  int chunk_count;
  int segment_count;
  const DeviceStep* step;
  bool report_norm;
  double clip_norm;  // 0: not
  double trust, weight_decay;
  float largest_scale, growth_interval;
  float* loss_scale;  // [4]; null: none
  bool moves_scale;
  double* report;  // [1]: the norm
  UpdateDecision* decision;
  double* gradient_squares;  // [chunks]
  double* weight_squares;    // [chunks]; LARS only
  float* local_rates;        // [segments], times the learning rate; LARS only, null otherwise
  GridMeeting* meeting;
};

class GradientNorm {
 public:
  // Whether the op needs it. Without, an update takes its gradients as they are.
  static bool needed(const OptimizerUpdate& op);
  // Whether it needs no more than a look at the squares that it is given.
  static bool given(const OptimizerUpdate& op) { return op.squares_given; }

  GradientNorm(const OptimizerUpdate& op, const SegmentTable& table, CudaDevice& device);

  std::size_t scratch_bytes() const;

  struct Tensors {
    float* loss_scale = nullptr;  // [4]; null without scaling
    double* report = nullptr;     // [1]
    std::byte* scratch = nullptr;
  };
  NormArgs args(const Tensors& tensors) const;

 private:
  bool lars() const { return args_.kind == OptimizerKind::lars; }

  OptimizerArgs args_;
  std::optional<LossScaling> scaling_;
  bool moves_scale_;
  const SegmentTable& table_;
  CudaDevice& device_;
  DeviceMemory meeting_;  // GridMeeting
};

}  // namespace trifold::cuda
