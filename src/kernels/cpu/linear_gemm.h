// A linear layer, y[N][O] = x[N][I] w[O][I]^T + b, and its gradients, by our own loops. A few rows (N <= 32) are bound
// by memory: each pass then reads or writes w once, in place. More rows go through Gemm. The same to the bit for a
// given number of threads; nothing allocates but the constructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/simd/gemm_loops.h"

namespace trifold::cpu {

struct LinearShape {
  std::int64_t batch = 0;  // N
  std::int64_t in = 0;     // I
  std::int64_t out = 0;    // O
};

struct LinearForwardArgs {
  std::span<const float> x;          // [N][I]
  std::span<const float> w;          // [O][I]
  std::span<const float> bias = {};  // [O] or empty
  std::span<float> y;                // [N][O]
  bool relu = false;                 // y = max(y, 0)
};

struct LinearBackwardDataArgs {
  std::span<const float> dy;  // [N][O]
  std::span<const float> w;   // [O][I]
  std::span<float> dx;        // [N][I]
};

struct LinearBackwardWeightsArgs {
  std::span<const float> x;     // [N][I]
  std::span<const float> dy;    // [N][O]
  std::span<float> dw;          // [O][I]
  std::span<float> dbias = {};  // [O] or empty
  bool accumulate = false;      // add to what dw and dbias hold
};

class LinearGemm {
 public:
  // `threads` parts, run on however many threads the team has.
  LinearGemm(const LinearShape& shape, int threads, const GemmLoops& loops = gemm_loops());

  // Scratch is 64-byte aligned and holds nothing between calls.
  std::size_t forward_scratch_bytes() const;
  std::size_t backward_data_scratch_bytes() const;
  std::size_t backward_weights_scratch_bytes() const;

  void forward(const LinearForwardArgs& args, std::span<std::byte> scratch) const;
  void backward_data(const LinearBackwardDataArgs& args, std::span<std::byte> scratch) const;
  void backward_weights(const LinearBackwardWeightsArgs& args, std::span<std::byte> scratch) const;

 private:
  std::int64_t padded_batch() const;
  std::int64_t batch_panel() const;  // columns of a packed panel of x transposed
  std::int64_t strip_columns() const;
  std::int64_t packed_dy_floats() const;

  void skinny_forward(const LinearForwardArgs& args, float* scratch) const;
  void skinny_backward_data(const LinearBackwardDataArgs& args, float* scratch) const;
  void skinny_backward_weights(const LinearBackwardWeightsArgs& args, float* scratch) const;
  template <class Body>
  void for_each_part(Body&& body) const;

  LinearShape shape_;
  int threads_;
  const GemmLoops* loops_;
  bool skinny_;
  Gemm forward_, backward_data_, backward_weights_;  // where not skinny
};

}  // namespace trifold::cpu
