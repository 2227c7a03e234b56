// 3x3 convolutions of stride 1 by Winograd's F(4x4,3x3): a quarter of the multiplications of the direct method, with
// errors of a few 1e-6 of the largest value. Activations are [N][C/V][H][W][V], weights [O/V][I/V][3][3][V of I][V of
// O], with V = lanes of the vectors in use; channel counts are multiples of V. An object is one shape for one number of
// threads: running it allocates nothing, and gives the same bits every time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/winograd_loops.h"
#include "kernels/cpu/winograd_plan.h"

namespace trifold::cpu {

struct WinogradForwardArgs {
  const float* x = nullptr;
  const float* weights = nullptr;
  float* y = nullptr;
  const float* bias = nullptr;      // [O]
  bool relu = false;                // of what is stored
  const float* in_scale = nullptr;  // [I], with in_shift: x is read as x * in_scale + in_shift; padding stays 0
  const float* in_shift = nullptr;  // [I]
  bool in_relu = false;             // after in_scale and in_shift; only with them
  // Sums over a group's stored y of (y - stat_center) and of its square, overwritten; null: none.
  const float* stat_center = nullptr;  // [O]; null: 0
  double* stat_sum = nullptr;          // [groups][O]
  double* stat_sumsq = nullptr;        // [groups][O]
};

struct WinogradBackwardDataArgs {
  const float* dy = nullptr;
  const float* weights = nullptr;
  float* dx = nullptr;  // overwritten
};

struct WinogradBackwardWeightsArgs {
  const float* x = nullptr;
  const float* dy = nullptr;
  float* dw = nullptr;              // overwritten
  float* db = nullptr;              // [O], overwritten; may be null
  const float* in_scale = nullptr;  // as in WinogradForwardArgs
  const float* in_shift = nullptr;
  bool in_relu = false;
};

class Winograd {
 public:
  static bool supports(const WinogradShape& shape, const WinogradLoops& loops = winograd_loops());
  Winograd(const WinogradShape& shape, int threads, const WinogradLoops& loops = winograd_loops());

  // Scratch is the caller's, 64-byte aligned, and holds nothing between calls.
  std::size_t forward_scratch_bytes() const { return forward_.scratch_bytes; }
  std::size_t backward_data_scratch_bytes() const { return backward_data_.scratch_bytes; }
  std::size_t backward_weights_scratch_bytes() const { return backward_weights_.scratch_bytes; }

  void forward(const WinogradForwardArgs& args, std::byte* scratch) const;
  void backward_data(const WinogradBackwardDataArgs& args, std::byte* scratch) const;
  void backward_weights(const WinogradBackwardWeightsArgs& args, std::byte* scratch) const;

 private:
  using Plan = WinogradConvolutionPlan;
  void convolve(const Plan& plan, const WinogradForwardArgs& args, std::byte* scratch) const;
  void convolve_by_tiles(const Plan& plan, const WinogradForwardArgs& args, std::byte* scratch) const;
  void convolve_by_channels(const Plan& plan, const WinogradForwardArgs& args, std::byte* scratch) const;
  void weights_by_tiles(const WinogradBackwardWeightsArgs& args, std::byte* scratch) const;
  void weights_by_channels(const WinogradBackwardWeightsArgs& args, std::byte* scratch) const;
  void store_bias_gradient(const WinogradBackwardWeightsArgs& args, std::byte* scratch) const;

  std::int64_t stat_group_ = 1;
  int threads_ = 1;
  const WinogradLoops* loops_ = nullptr;
  Plan forward_;
  Plan backward_data_;
  WinogradWeightsPlan backward_weights_;
};

}  // namespace trifold::cpu
