// The inner loops of matrix products, one table per instruction set. All of them are built on one register tile of
// kTileRows x tile_columns floats and run on the calling thread; gemm.cpp and linear_gemm.cpp cut the work and own the
// buffers. Matrices are row-major; "packed" operands are panels that the loops read front to back.
#pragma once

#include <cstdint>

namespace trifold::cpu {

inline constexpr std::int64_t kTileRows = 6;

// c[m][n] (+)= a[m][k] b[k][n] (+ bias[n], relu), with b packed.
struct GemmBlock {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const float* a = nullptr;
  std::int64_t a_stride =
      0;  // between rows if a is plain, else between packed panels of kTileRows rows, [k][kTileRows]
  bool a_packed = false;
  const float* b = nullptr;         // panels [k][b_panel_columns], zeros past n
  std::int64_t b_panel_stride = 0;  // between panels
  std::int64_t b_panel_columns = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;  // between rows
  bool accumulate = false;    // add to what c holds
  bool rows_first = false;    // finish a group of rows before the next: reads a, and writes c, once and in order
  const float* bias = nullptr;
  bool relu = false;
};

// strip += transposed(left) * w: all rows n of left, over the given columns of w, which is read once and in place.
struct GemmStrip {
  std::int64_t n = 0;
  std::int64_t rows = 0;        // of w
  std::int64_t columns = 0;     // of w
  const float* left = nullptr;  // packed panels [n][kTileRows], one for each kTileRows rows of w
  const float* w = nullptr;     // [rows][columns]
  std::int64_t w_stride = 0;    // between rows
  float* strip = nullptr;       // [columns / tile_columns, rounded up][n][tile_columns]
};

// The finished y[n][o] of a product that was computed as yt[o][n].
struct TransposedStore {
  std::int64_t n = 0;
  std::int64_t o = 0;
  const float* yt = nullptr;
  std::int64_t yt_stride = 0;   // a multiple of lanes, at least n
  const float* bias = nullptr;  // [o] or null
  bool relu = false;
  float* y = nullptr;
  std::int64_t y_stride = 0;
};

struct GemmLoops {
  int lanes;
  std::int64_t tile_columns;

  // Panels [rows of matrix][panel] of the columns of a row-major [rows][columns] matrix; zeros past the last column.
  void (*pack_columns)(const float* matrix, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                       std::int64_t panel, std::int64_t panel_stride, float* packed);
  // The same of its transpose: panels [columns of matrix][panel] of its rows.
  void (*pack_rows)(const float* matrix, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                    std::int64_t panel, std::int64_t panel_stride, float* packed);
  void (*block)(const GemmBlock& block);
  void (*strip)(const GemmStrip& strip);
  void (*store_transposed)(const TransposedStore& store);
  // sums[c] (+)= sum over rows of matrix[r][c].
  void (*column_sums)(const float* matrix, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                      bool accumulate, float* sums);
};

const GemmLoops& gemm_loops();

}  // namespace trifold::cpu
