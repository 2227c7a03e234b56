// What an update has to know about all gradients before it may begin: their norm (clipping), whether all are finite
// (loss scaling), and the norms of each parameter (LARS). One launch; nothing returns to the host.
#pragma once

#include <cuda_runtime.h>

#include "kernels/ops/optimizer.h"
#include "runtime/core/cuda/cuda_device.h"

namespace trifold::cuda {

// A run of the flat buffers that one block takes at a time, within one segment.
struct UpdateChunk {
  std::int64_t begin, end;
  int segment;
  int decays;  // of its segment
};
struct SegmentChunks {
  int first_chunk, end_chunk;
  int decays;
};

// The segments cut into chunks, in device memory.
class SegmentTable {
 public:
  SegmentTable(const std::vector<ParameterSegment>& segments, Device& device);

  int chunk_count() const { return chunk_count_; }
  int segment_count() const { return segment_count_; }
  const UpdateChunk* chunks() const { return reinterpret_cast<const UpdateChunk*>(memory_.data()); }
  const SegmentChunks* segments() const;

 private:
  int chunk_count_ = 0;
  int segment_count_ = 0;
  DeviceMemory memory_;
};

// How the update is to be done; in device memory.
struct UpdateDecision {
  double gradient_scale;  // gradients are to be multiplied by this: unscaled and clipped
  long long updates;      // applied so far, this one included
  int skip;               // leave everything as it is
};

class GradientNorm {
 public:
  // Whether the op needs it. Without, an update takes its gradients as they are.
  static bool needed(const OptimizerUpdate& op);

  GradientNorm(const OptimizerUpdate& op, const SegmentTable& table, CudaDevice& device);

  std::size_t scratch_bytes() const;

  struct Tensors {
    const float* weights = nullptr;
    const float* gradients = nullptr;
    float* loss_scale = nullptr;  // [4], moved on; null without scaling
    double* report = nullptr;     // [1]: the norm
    std::byte* scratch = nullptr;
  };
  void launch(const Tensors& tensors) const;

  // What the launch leaves in its scratch.
  static const UpdateDecision* decision(const std::byte* scratch);
  const float* local_rates(const std::byte* scratch) const;  // LARS: by segment; null otherwise

 private:
  bool lars() const { return args_.kind == OptimizerKind::lars; }

  OptimizerArgs args_;
  std::optional<LossScaling> scaling_;
  const SegmentTable& table_;
  CudaDevice& device_;
  DeviceMemory blocks_done_;  // unsigned; zero between launches
};

}  // namespace trifold::cuda
