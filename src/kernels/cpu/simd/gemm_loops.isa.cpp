// The loops of gemm_loops.h for one instruction set. The register tile is 6 rows x 2 vectors (4 with AVX-512): twelve
// accumulators hide the latency of the multiply-adds, and 8 loads feed 12 of them. Every tail is a smaller tile.
#include "kernels/cpu/simd/gemm_loops.h"

#include "kernels/cpu/simd/vec.h"

namespace trifold::cpu::TRIFOLD_ISA {
namespace {

constexpr int kRows = static_cast<int>(kTileRows);
constexpr int kVectors = kLanes == 16 ? 4 : 2;
constexpr std::int64_t kColumns = kVectors * kLanes;
constexpr std::int64_t kLineFloats = 16;

// The first `count` floats, zeros after them.
inline Vec load_first(const float* p, std::int64_t count) {
  if (count >= kLanes) return load(p);
  float lanes[kLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return load(lanes);
}

inline void store_first(float* p, Vec v, std::int64_t count) {
  if (count >= kLanes) return store(p, v);
  float lanes[kLanes];
  store(lanes, v);
  for (std::int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

inline std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

// ---- packing

#if defined(__AVX2__)
// The transpose of 8 x 8 floats, of which the first `rows` rows exist.
inline void transpose8(const float* from, std::int64_t from_stride, std::int64_t rows, __m256 (&out)[8]) {
  __m256 in[8], pair[8], quad[8];
  for (int r = 0; r < 8; ++r) in[r] = r < rows ? _mm256_loadu_ps(from + r * from_stride) : _mm256_setzero_ps();
  for (int r = 0; r < 8; r += 2) {
    pair[r] = _mm256_unpacklo_ps(in[r], in[r + 1]);
    pair[r + 1] = _mm256_unpackhi_ps(in[r], in[r + 1]);
  }
  for (int r = 0; r < 8; r += 4) {
    quad[r] = _mm256_shuffle_ps(pair[r], pair[r + 2], 0x44);
    quad[r + 1] = _mm256_shuffle_ps(pair[r], pair[r + 2], 0xee);
    quad[r + 2] = _mm256_shuffle_ps(pair[r + 1], pair[r + 3], 0x44);
    quad[r + 3] = _mm256_shuffle_ps(pair[r + 1], pair[r + 3], 0xee);
  }
  for (int r = 0; r < 4; ++r) {
    out[r] = _mm256_permute2f128_ps(quad[r], quad[r + 4], 0x20);
    out[r + 4] = _mm256_permute2f128_ps(quad[r], quad[r + 4], 0x31);
  }
}
#endif

// to[c][r] = from[r][c]; rows [rows, padded_rows) of `from` read as zeros.
void transpose(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t padded_rows,
               std::int64_t columns, float* to, std::int64_t to_stride) {
  std::int64_t done = 0;
#if defined(__AVX2__)
  if (padded_rows % 8 == 0) {
    for (; done + 8 <= columns; done += 8) {
      for (std::int64_t r = 0; r < padded_rows; r += 8) {
        __m256 out[8];
        transpose8(from + r * from_stride + done, from_stride, rows - r, out);
        for (int c = 0; c < 8; ++c) _mm256_storeu_ps(to + (done + c) * to_stride + r, out[c]);
      }
    }
  }
#endif
  for (to += done * to_stride, from += done; done < columns; ++done, ++from, to += to_stride) {
    for (std::int64_t r = 0; r < rows; ++r) to[r] = from[r * from_stride];
    for (std::int64_t r = rows; r < padded_rows; ++r) to[r] = 0.0f;
  }
}

void pack_columns(const float* matrix, std::int64_t stride, std::int64_t rows, std::int64_t columns, std::int64_t panel,
                  std::int64_t panel_stride, float* packed) {
  for (std::int64_t first = 0; first < columns; first += panel, packed += panel_stride) {
    const std::int64_t width = smaller(panel, columns - first);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* from = matrix + r * stride + first;
      float* to = packed + r * panel;
      std::int64_t c = 0;
      for (; c + kLanes <= width; c += kLanes) store(to + c, load(from + c));
      for (; c < width; ++c) to[c] = from[c];
      for (; c < panel; ++c) to[c] = 0.0f;
    }
  }
}

void pack_rows(const float* matrix, std::int64_t stride, std::int64_t rows, std::int64_t columns, std::int64_t panel,
               std::int64_t panel_stride, float* packed) {
  for (std::int64_t first = 0; first < rows; first += panel, packed += panel_stride) {
    transpose(matrix + first * stride, stride, smaller(panel, rows - first), panel, columns, packed, panel);
  }
}

// ---- the register tile

struct Tile {
  const float* a;
  std::int64_t a_stride;  // between rows if they are plain
  const float* b;
  std::int64_t b_stride;
  std::int64_t k;
  float* c;
  std::int64_t c_stride;
  bool accumulate;
  const float* bias;
  bool relu;
};

// Unrolled whatever the body holds, so that the accumulators stay in registers.
template <int kR, int kV, class Body>
[[gnu::always_inline]] inline void for_each(Body body) {
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kV; ++v) body(r, v);
  }
}

template <int kR, int kV, bool kPacked>
void run_tile(const Tile& t) {
  Vec sum[kR][kV] = {};
  const float* b = t.b;
  if constexpr (kPacked) {
    const float* a = t.a;
    for (std::int64_t k = 0; k < t.k; ++k, a += kRows, b += t.b_stride) {
      Vec right[kV];
      for (int v = 0; v < kV; ++v) right[v] = load(b + v * kLanes);
      for (int r = 0; r < kR; ++r) {
        const Vec left = broadcast(a[r]);
        for (int v = 0; v < kV; ++v) sum[r][v] = fma(left, right[v], sum[r][v]);
      }
    }
  } else {
    const float* a[kR];
    for (int r = 0; r < kR; ++r) a[r] = t.a + r * t.a_stride;
    for (std::int64_t first = 0; first < t.k; first += kLineFloats) {
      // The rows of the next tile: hardware does not see so many short streams coming.
      for (int r = 0; r < kR; ++r) __builtin_prefetch(a[r] + first + kRows * t.a_stride, 0, 2);
      const std::int64_t end = smaller(t.k, first + kLineFloats);
      for (std::int64_t k = first; k < end; ++k, b += t.b_stride) {
        Vec right[kV];
        for (int v = 0; v < kV; ++v) right[v] = load(b + v * kLanes);
        for (int r = 0; r < kR; ++r) {
          const Vec left = broadcast(a[r][k]);
          for (int v = 0; v < kV; ++v) sum[r][v] = fma(left, right[v], sum[r][v]);
        }
      }
    }
  }
  if (t.accumulate) {
    for_each<kR, kV>([&](int r, int v) { sum[r][v] += load(t.c + r * t.c_stride + v * kLanes); });
  }
  if (t.bias) for_each<kR, kV>([&](int r, int v) { sum[r][v] += load(t.bias + v * kLanes); });
  if (t.relu) for_each<kR, kV>([&](int r, int v) { sum[r][v] = max(sum[r][v], zero()); });
  for_each<kR, kV>([&](int r, int v) { store(t.c + r * t.c_stride + v * kLanes, sum[r][v]); });
}

using TileFunction = void (*)(const Tile&);

template <int kV, bool kPacked>
TileFunction tile_of_rows(std::int64_t rows) {
  switch (rows) {
    case 1:
      return run_tile<1, kV, kPacked>;
    case 2:
      return run_tile<2, kV, kPacked>;
    case 3:
      return run_tile<3, kV, kPacked>;
    case 4:
      return run_tile<4, kV, kPacked>;
    case 5:
      return run_tile<5, kV, kPacked>;
    default:
      return run_tile<6, kV, kPacked>;
  }
}

template <bool kPacked>
TileFunction tile_of(std::int64_t rows, std::int64_t vectors) {
  if constexpr (kVectors == 4) {
    if (vectors == 4) return tile_of_rows<4, kPacked>(rows);
    if (vectors == 3) return tile_of_rows<3, kPacked>(rows);
  }
  return vectors == 2 ? tile_of_rows<2, kPacked>(rows) : tile_of_rows<1, kPacked>(rows);
}

// A tile whose last vector is partly outside c: computed in a full tile on the stack.
void run_edge_tile(TileFunction function, Tile tile, std::int64_t rows, std::int64_t columns) {
  alignas(64) float full[kRows * kColumns] = {};
  alignas(64) float bias[kColumns] = {};
  float* const c = tile.c;
  const std::int64_t c_stride = tile.c_stride;
  if (tile.accumulate) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < columns; ++i) full[r * kColumns + i] = c[r * c_stride + i];
    }
  }
  if (tile.bias) {
    for (std::int64_t i = 0; i < columns; ++i) bias[i] = tile.bias[i];
    tile.bias = bias;
  }
  tile.c = full;
  tile.c_stride = kColumns;
  function(tile);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < columns; ++i) c[r * c_stride + i] = full[r * kColumns + i];
  }
}

void block(const GemmBlock& g) {
  const auto run = [&](std::int64_t row, std::int64_t column) {
    const std::int64_t rows = smaller(kRows, g.m - row);
    const std::int64_t columns = smaller(g.b_panel_columns, g.n - column);
    const std::int64_t vectors = (columns + kLanes - 1) / kLanes;
    const TileFunction function = g.a_packed ? tile_of<true>(rows, vectors) : tile_of<false>(rows, vectors);
    const Tile tile{.a = g.a + (g.a_packed ? row / kRows : row) * g.a_stride,
                    .a_stride = g.a_stride,
                    .b = g.b + column / g.b_panel_columns * g.b_panel_stride,
                    .b_stride = g.b_panel_columns,
                    .k = g.k,
                    .c = g.c + row * g.c_stride + column,
                    .c_stride = g.c_stride,
                    .accumulate = g.accumulate,
                    .bias = g.bias ? g.bias + column : nullptr,
                    .relu = g.relu};
    if (columns == vectors * kLanes) {
      function(tile);
    } else {
      run_edge_tile(function, tile, rows, columns);
    }
  };
  if (g.rows_first) {
    for (std::int64_t row = 0; row < g.m; row += kRows) {
      for (std::int64_t column = 0; column < g.n; column += g.b_panel_columns) run(row, column);
    }
  } else {
    for (std::int64_t column = 0; column < g.n; column += g.b_panel_columns) {
      for (std::int64_t row = 0; row < g.m; row += kRows) run(row, column);
    }
  }
}

// ---- a few rows of w at a time, held in registers against all of left

template <int kR, int kV>
void run_strip_tile(const GemmStrip& s, const float* left, const float* w, std::int64_t columns, float* out) {
  Vec right[kR][kV];
  for (int r = 0; r < kR; ++r) {
    const float* row = w + r * s.w_stride;
    for (int v = 0; v < kV; ++v) {
      __builtin_prefetch(row + kRows * s.w_stride + v * kLanes, 0, 2);
      right[r][v] = load_first(row + v * kLanes, columns - v * kLanes);
    }
  }
  for (std::int64_t n = 0; n < s.n; ++n, left += kRows, out += kColumns) {
    Vec sum[kV];
    for (int v = 0; v < kV; ++v) sum[v] = load(out + v * kLanes);
    for (int r = 0; r < kR; ++r) {
      const Vec factor = broadcast(left[r]);
      for (int v = 0; v < kV; ++v) sum[v] = fma(factor, right[r][v], sum[v]);
    }
    for (int v = 0; v < kV; ++v) store(out + v * kLanes, sum[v]);
  }
}

template <int kR>
void run_strip_rows(const GemmStrip& s, const float* left, const float* w) {
  float* out = s.strip;
  for (std::int64_t column = 0; column < s.columns; column += kColumns, out += s.n * kColumns) {
    const std::int64_t columns = smaller(kColumns, s.columns - column);
    if (columns > kLanes) {
      run_strip_tile<kR, kVectors>(s, left, w + column, columns, out);
    } else {
      run_strip_tile<kR, 1>(s, left, w + column, columns, out);
    }
  }
}

void strip(const GemmStrip& s) {
  for (std::int64_t row = 0; row < s.rows; row += kRows) {
    const float* left = s.left + row * s.n;
    const float* w = s.w + row * s.w_stride;
    switch (s.rows - row) {
      case 1:
        run_strip_rows<1>(s, left, w);
        break;
      case 2:
        run_strip_rows<2>(s, left, w);
        break;
      case 3:
        run_strip_rows<3>(s, left, w);
        break;
      case 4:
        run_strip_rows<4>(s, left, w);
        break;
      case 5:
        run_strip_rows<5>(s, left, w);
        break;
      default:
        run_strip_rows<6>(s, left, w);
        break;
    }
  }
}

// ---- the rest

void store_transposed(const TransposedStore& s) {
  constexpr std::int64_t kGroup = 16;
  for (std::int64_t first = 0; first < s.o; first += kGroup) {
    const std::int64_t count = smaller(kGroup, s.o - first);
    for (std::int64_t n = 0; n < s.n; n += kLanes) {
      alignas(64) float part[kLanes][kGroup];
      transpose(s.yt + first * s.yt_stride + n, s.yt_stride, count, kGroup, kLanes, part[0], kGroup);
      for (std::int64_t r = 0; r < smaller(kLanes, s.n - n); ++r) {
        float* y = s.y + (n + r) * s.y_stride + first;
        for (std::int64_t i = 0; i < count; ++i) {
          const float value = part[r][i] + (s.bias ? s.bias[first + i] : 0.0f);
          y[i] = s.relu && !(value > 0.0f) ? 0.0f : value;
        }
      }
    }
  }
}

void column_sums(const float* matrix, std::int64_t stride, std::int64_t rows, std::int64_t columns, bool accumulate,
                 float* sums) {
  for (std::int64_t column = 0; column < columns; column += kLanes) {
    const std::int64_t count = smaller(kLanes, columns - column);
    Vec total = zero();
    for (std::int64_t r = 0; r < rows; ++r) total += load_first(matrix + r * stride + column, count);
    if (accumulate) total += load_first(sums + column, count);
    store_first(sums + column, total, count);
  }
}

}  // namespace

extern const GemmLoops gemm_loops_table;
const GemmLoops gemm_loops_table = {.lanes = kLanes,
                                    .tile_columns = kColumns,
                                    .pack_columns = pack_columns,
                                    .pack_rows = pack_rows,
                                    .block = block,
                                    .strip = strip,
                                    .store_transposed = store_transposed,
                                    .column_sums = column_sums};

}  // namespace trifold::cpu::TRIFOLD_ISA
