// Matrix product in float, blocked for cache and registers; the only arithmetic of any weight in the stand-ins. The
// order of summation is fixed, so results repeat on one machine.
#pragma once

#include <cstddef>

namespace gpusim {

struct ConstMatrix {
  const float* data = nullptr;
  std::size_t row_stride = 0;
  std::size_t col_stride = 0;
};

struct GemmShape {
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
};

// c[i * n + j] += sum over l of a(i, l) * b(l, j)
void accumulate_product(const GemmShape& shape, const ConstMatrix& a, const ConstMatrix& b, float* c);

}  // namespace gpusim
