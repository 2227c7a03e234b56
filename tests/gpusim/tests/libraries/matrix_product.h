// The product that the tests of cuBLAS and cuBLASLt compare with: plain loops over column-major matrices.
#pragma once

#include <cstddef>
#include <vector>

struct Sizes {
  int m = 0;
  int n = 0;
  int k = 0;
};

// Column-major op(a) [m, k] times op(b) [k, n].
inline std::vector<float> product(const Sizes& size, const std::vector<float>& a, bool transa,
                                  const std::vector<float>& b, bool transb) {
  std::vector<float> c(static_cast<std::size_t>(size.m) * static_cast<std::size_t>(size.n));
  for (int i = 0; i < size.m; ++i) {
    for (int j = 0; j < size.n; ++j) {
      float sum = 0;
      for (int l = 0; l < size.k; ++l) {
        const float x = a[static_cast<std::size_t>(transa ? l + i * size.k : i + l * size.m)];
        const float y = b[static_cast<std::size_t>(transb ? j + l * size.n : l + j * size.k)];
        sum += x * y;
      }
      c[static_cast<std::size_t>(i + j * size.m)] = sum;
    }
  }
  return c;
}

inline constexpr Sizes kSizes = {37, 22, 19};
inline constexpr std::size_t kA = 37 * 19;
inline constexpr std::size_t kB = 19 * 22;
inline constexpr std::size_t kC = 37 * 22;
