#include "cublas/float_gemm.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace gpusim {
namespace {

constexpr std::size_t kTileRows = 4;
constexpr std::size_t kTileCols = 16;
constexpr std::size_t kBlockK = 256;
constexpr std::size_t kBlockRows = 96;  // of a, kept in the L2 cache; a multiple of kTileRows
constexpr std::size_t kBlockCols = 1024;

using Lanes = float __attribute__((vector_size(32)));
constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(float);

// Panels of `width` rows (of a) or columns (of b), each k-major, the last one filled up with zeros.
void pack(const float* data, std::size_t across_stride, std::size_t k_stride, std::size_t across, std::size_t k,
          std::size_t width, float* panels) {
  for (std::size_t first = 0; first < across; first += width) {
    const std::size_t used = std::min(width, across - first);
    for (std::size_t l = 0; l < k; ++l, panels += width) {
      const float* from = data + first * across_stride + l * k_stride;
      for (std::size_t i = 0; i < used; ++i) panels[i] = from[i * across_stride];
      for (std::size_t i = used; i < width; ++i) panels[i] = 0;
    }
  }
}

struct Tile {
  const float* a = nullptr;  // panel: [k][kTileRows]
  const float* b = nullptr;  // panel: [k][kTileCols]
  std::size_t k = 0;
  float* c = nullptr;
  std::size_t c_stride = 0;
  std::size_t rows = 0;
  std::size_t cols = 0;
};

__attribute__((target_clones("arch=x86-64-v3", "default"))) void add_tile(const Tile& tile) {
  Lanes sum[kTileRows][2] = {};
  const float* a = tile.a;
  const float* b = tile.b;
  for (std::size_t l = 0; l < tile.k; ++l, a += kTileRows, b += kTileCols) {
    Lanes b0;
    Lanes b1;
    std::memcpy(&b0, b, sizeof b0);
    std::memcpy(&b1, b + kLanes, sizeof b1);
    for (std::size_t i = 0; i < kTileRows; ++i) {
      sum[i][0] += a[i] * b0;
      sum[i][1] += a[i] * b1;
    }
  }
  for (std::size_t i = 0; i < tile.rows; ++i) {
    float row[kTileCols];
    std::memcpy(row, sum[i], sizeof row);
    float* c = tile.c + i * tile.c_stride;
    for (std::size_t j = 0; j < tile.cols; ++j) c[j] += row[j];
  }
}

std::size_t padded(std::size_t count, std::size_t unit) {
  return (count + unit - 1) / unit * unit;
}

}  // namespace

void accumulate_product(const GemmShape& shape, const ConstMatrix& a, const ConstMatrix& b, float* c) {
  const std::size_t largest_k = std::min(shape.k, kBlockK);
  std::vector<float> a_panels(padded(std::min(shape.m, kBlockRows), kTileRows) * largest_k);
  std::vector<float> b_panels(padded(std::min(shape.n, kBlockCols), kTileCols) * largest_k);
  for (std::size_t l0 = 0; l0 < shape.k; l0 += kBlockK) {
    const std::size_t k = std::min(kBlockK, shape.k - l0);
    for (std::size_t j0 = 0; j0 < shape.n; j0 += kBlockCols) {
      const std::size_t n = std::min(kBlockCols, shape.n - j0);
      pack(b.data + l0 * b.row_stride + j0 * b.col_stride, b.col_stride, b.row_stride, n, k, kTileCols,
           b_panels.data());
      for (std::size_t i0 = 0; i0 < shape.m; i0 += kBlockRows) {
        const std::size_t m = std::min(kBlockRows, shape.m - i0);
        pack(a.data + i0 * a.row_stride + l0 * a.col_stride, a.row_stride, a.col_stride, m, k, kTileRows,
             a_panels.data());
        for (std::size_t j = 0; j < n; j += kTileCols) {
          for (std::size_t i = 0; i < m; i += kTileRows) {
            add_tile({.a = a_panels.data() + i * k,
                      .b = b_panels.data() + j * k,
                      .k = k,
                      .c = c + (i0 + i) * shape.n + j0 + j,
                      .c_stride = shape.n,
                      .rows = std::min(kTileRows, m - i),
                      .cols = std::min(kTileCols, n - j)});
          }
        }
      }
    }
  }
}

}  // namespace gpusim
