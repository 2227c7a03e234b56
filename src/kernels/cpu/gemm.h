// A matrix product with everything decided beforehand: c[m][n] (+)= op(a) op(b), optionally + bias[n] and relu. Shared
// among this rank's threads; the same to the bit for a given number of parts. run() allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/simd/gemm_loops.h"

namespace trifold::cpu {

struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool a_transposed = false;  // a is stored [k][m], not [m][k]
  bool b_transposed = false;  // b is stored [n][k], not [k][n]
};

struct GemmArgs {
  std::span<const float> a;
  std::int64_t a_stride = 0;  // between stored rows
  std::span<const float> b;
  std::int64_t b_stride = 0;
  std::span<float> c;
  std::int64_t c_stride = 0;
  bool accumulate = false;           // add to what c holds
  std::span<const float> bias = {};  // [n] or empty
  bool relu = false;
};

class Gemm {
 public:
  Gemm() = default;
  // `threads` parts, run on however many threads the team has.
  Gemm(const GemmShape& shape, int threads, const GemmLoops& loops = gemm_loops());

  std::size_t scratch_bytes() const;
  void run(const GemmArgs& args, std::span<std::byte> scratch) const;  // scratch is 64-byte aligned

 private:
  struct Grid {
    int m = 1;
    int n = 1;
    int k = 1;
    int parts() const { return m * n * k; }
  };

  Grid best_grid(int threads) const;
  std::int64_t part_scratch_floats() const;
  void run_part(const GemmArgs& args, float* scratch, int part) const;
  void add_slices(const GemmArgs& args, const float* slices, std::int64_t row_begin, std::int64_t row_end) const;

  GemmShape shape_;
  const GemmLoops* loops_ = nullptr;
  Grid grid_;
};

}  // namespace trifold::cpu
