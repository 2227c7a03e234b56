// Sums of squares chunk by chunk, in double (no square of a float overflows it, so the sum is finite exactly when all
// gradients are). The block that finishes last adds the chunks up in their order, whatever the grid, and decides the
// update.
#pragma once

#include <cstdint>

#include "kernels/cuda/cooperative.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/gradient_norm.h"
#include "kernels/cuda/reduce.cuh"

namespace trifold::cuda {

__device__ __forceinline__ double add_square(double sum, float value) {
  return __fma_rn(static_cast<double>(value), static_cast<double>(value), sum);
}

template <int kThreads>
__device__ __forceinline__ double squares_of_chunk(const float* values, const UpdateChunk& chunk) {
  double sum = 0;
  // Chunks start and end anywhere; whole packs lie at multiples of four.
  for (std::int64_t i = (chunk.begin & ~std::int64_t{3}) + 4 * threadIdx.x; i < chunk.end; i += 4 * kThreads) {
    if (i >= chunk.begin && i + 4 <= chunk.end) {
      const Pack<float> pack = load_pack(values + i);
#pragma unroll
      for (int k = 0; k < 4; ++k) sum = add_square(sum, pack.values[k]);
    } else {
      for (std::int64_t k = max(i, chunk.begin); k < min(i + 4, chunk.end); ++k) sum = add_square(sum, values[k]);
    }
  }
  return block_sum<kThreads>(sum);
}

// The loss scale moves on as loss_scale_step() in kernels/ops moves it on the host.
__device__ __forceinline__ UpdateDecision decide(const NormArgs& args, double gradient_squares) {
  UpdateDecision decision{1, args.step->updates, 0};
  double norm = sqrt(gradient_squares);
  if (args.loss_scale != nullptr) {
    float scale = args.loss_scale[0], good = args.loss_scale[1], skipped = args.loss_scale[2];
    decision.gradient_scale = 1 / static_cast<double>(scale);
    norm *= decision.gradient_scale;
    if (!isfinite(gradient_squares)) {
      decision.skip = 1;
      scale = fmaxf(scale / 2, 1.0f);
      good = 0;
      skipped += 1;
    } else if ((good += 1) >= args.growth_interval) {
      scale = fminf(scale * 2, args.largest_scale);
      good = 0;
    }
    if (args.moves_scale) {
      args.loss_scale[0] = scale;
      args.loss_scale[1] = good;
      args.loss_scale[2] = skipped;
    }
    decision.updates -= static_cast<long long>(skipped);
  }
  if (args.clip_norm > 0) {
    const double shrink = args.clip_norm / (norm + 1e-6);
    if (shrink < 1) decision.gradient_scale *= shrink;
  }
  *args.report = args.report_norm ? norm : 0.0;
  *args.decision = decision;
  return decision;
}

// You, Gitman and Ginsburg (2017): the learning rate times a parameter's local rate, trust * |w| / (|g| + decay * |w|).
// A warp takes a segment.
template <int kThreads>
__device__ __forceinline__ void find_local_rates(const NormArgs& args, double gradient_scale) {
  for (int s = static_cast<int>(threadIdx.x) / 32; s < args.segment_count; s += kThreads / 32) {
    const SegmentChunks segment = args.segments[s];
    double gradient = 0, weight = 0;
    for (int i = segment.first_chunk + static_cast<int>(threadIdx.x) % 32; i < segment.end_chunk; i += 32) {
      gradient += __ldcg(args.gradient_squares + i);
      weight += __ldcg(args.weight_squares + i);
    }
    gradient = sqrt(warp_sum(gradient)) * gradient_scale;
    weight = sqrt(warp_sum(weight));
    double local = 1;
    if (segment.decays && weight > 0 && gradient > 0)
      local = args.trust * weight / (gradient + args.weight_decay * weight);
    if (threadIdx.x % 32 == 0) args.local_rates[s] = static_cast<float>(args.step->learning_rate * local);
  }
}

// By all blocks of a cooperative grid. Afterwards args.decision and args.local_rates are there for every thread.
template <int kThreads>
__device__ __forceinline__ void reduce_gradients(const float* weights, const float* gradients, const NormArgs& args) {
  const bool lars = args.local_rates != nullptr;
  for (int i = static_cast<int>(blockIdx.x); i < args.chunk_count; i += static_cast<int>(gridDim.x)) {
    const UpdateChunk chunk = args.chunks[i];
    const double gradient_squares = squares_of_chunk<kThreads>(gradients, chunk);
    if (threadIdx.x == 0) args.gradient_squares[i] = gradient_squares;
    if (lars) {
      const double weight_squares = squares_of_chunk<kThreads>(weights, chunk);
      if (threadIdx.x == 0) args.weight_squares[i] = weight_squares;
    }
  }
  meet(*args.meeting, [&] {
    double sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < args.chunk_count; i += kThreads)
      sum += __ldcg(args.gradient_squares + i);
    sum = block_sum<kThreads>(sum);
    __shared__ double gradient_scale;
    if (threadIdx.x == 0) gradient_scale = decide(args, sum).gradient_scale;
    if (!lars) return;
    __syncthreads();
    find_local_rates<kThreads>(args, gradient_scale);
  });
}

}  // namespace trifold::cuda
