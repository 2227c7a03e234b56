// The loops of first_conv_loops.h for one instruction set. Forward, a register tile is a few neighbouring output pixels
// x a few vectors of output channels, summed over all taps; for the weights it is a few taps x a few vectors of output
// channels, summed over some rows of pixels.
#include "kernels/cpu/simd/first_conv_loops.h"

#include "kernels/cpu/simd/vec.h"

namespace trifold::cpu::TRIFOLD_ISA {
namespace {

constexpr int kMaxVectors = kLanes == 16 ? 4 : 2;
constexpr std::int64_t kGradientPixelsBytes = 16 * 1024;  // of dy, read once for each tile of taps: half of L1

// Pixels or taps of a tile: with fewer than eight sums the multiply-adds wait for each other.
constexpr int tile_length(int vectors) {
  return vectors == 1 ? 8 : 6;
}

inline std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
inline std::int64_t larger(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}

// Unrolled whatever the body holds, so that the sums stay in registers.
template <int kFirst, int kSecond, class Body>
[[gnu::always_inline]] inline void for_each(Body body) {
#pragma GCC unroll 8
  for (int i = 0; i < kFirst; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kSecond; ++j) body(i, j);
  }
}

// Calls body.template operator()<length, vectors>(first, vector) for nearly equal pieces of [0, count) and groups of
// vectors that together cover [0, count) x [0, vectors).
template <int kLength, int kVectors, class Body>
[[gnu::always_inline]] inline void call_with_length(std::int64_t length, Body& body, std::int64_t first,
                                                    std::int64_t vector) {
  if constexpr (kLength > 1) {
    if (length < kLength) return call_with_length<kLength - 1, kVectors>(length, body, first, vector);
  }
  body.template operator()<kLength, kVectors>(first, vector);
}

template <int kVectors, class Body>
[[gnu::always_inline]] inline void for_each_piece(std::int64_t count, std::int64_t vector, Body& body) {
  constexpr int kLength = tile_length(kVectors);
  const std::int64_t pieces = (count + kLength - 1) / kLength;
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::int64_t first = count * piece / pieces;
    call_with_length<kLength, kVectors>(count * (piece + 1) / pieces - first, body, first, vector);
  }
}

// ---- the padded copy

void copy(const FirstConvCopy& c) {
  float* out = c.out;
  for (std::int64_t row = c.first_row; row < c.first_row + c.rows; ++row) {
    const bool inside = row >= 0 && row < c.height;
    for (std::int64_t channel = 0; channel < c.channels; ++channel) {
      const float* x = c.x + (channel * c.height + (inside ? row : 0)) * c.width;
      for (std::int64_t phase = 0; phase < c.phases; ++phase, out += c.columns) {
        // Columns [begin, end) of this phase lie inside x.
        const std::int64_t shift = c.pad - phase;
        const std::int64_t begin = smaller(c.columns, shift > 0 ? (shift + c.phases - 1) / c.phases : 0);
        const std::int64_t past = c.width + shift;
        const std::int64_t end =
            inside ? larger(begin, smaller(c.columns, past > 0 ? (past + c.phases - 1) / c.phases : 0)) : begin;
        for (std::int64_t q = 0; q < begin; ++q) out[q] = 0.0f;
        if (c.phases == 1) {
          for (std::int64_t q = begin; q < end; ++q) out[q] = x[q - shift];
        } else {
          for (std::int64_t q = begin; q < end; ++q) out[q] = x[q * c.phases - shift];
        }
        for (std::int64_t q = end; q < c.columns; ++q) out[q] = 0.0f;
      }
    }
  }
}

// ---- forward

// Of the vectors of output channels of one tile, over one row.
struct RowStats {
  Vec center[kMaxVectors];
  Vec sum[kMaxVectors];
  Vec sumsq[kMaxVectors];
};

template <int kPixels, int kVectors>
void forward_tile(const FirstConvForwardBand& f, const float* x, std::int64_t vector, float* y, RowStats* stats) {
  const std::int64_t taps = f.band.tap_count;
  const float* w = f.w + vector * taps * kLanes;
  Vec sum[kPixels][kVectors];
  for_each<kPixels, kVectors>(
      [&](int p, int v) { sum[p][v] = f.bias ? load(f.bias + (vector + v) * kLanes) : zero(); });
  for (std::int64_t t = 0; t < taps; ++t, w += kLanes) {
    const float* pixels = x + f.band.taps[t];
    Vec weights[kVectors];
    for_each<1, kVectors>([&](int, int v) { weights[v] = load(w + v * taps * kLanes); });
    for_each<kPixels, 1>([&](int p, int) {
      const Vec pixel = broadcast(pixels[p]);
      for_each<1, kVectors>([&](int, int v) { sum[p][v] = fma(pixel, weights[v], sum[p][v]); });
    });
  }
  if (f.relu) for_each<kPixels, kVectors>([&](int p, int v) { sum[p][v] = max(sum[p][v], zero()); });
  if (stats) {
    for_each<1, kVectors>([&](int, int v) {
      Vec total = stats->sum[v], total_sq = stats->sumsq[v];
      for_each<kPixels, 1>([&](int p, int) {
        const Vec difference = sum[p][v] - stats->center[v];
        total += difference;
        total_sq = fma(difference, difference, total_sq);
      });
      stats->sum[v] = total;
      stats->sumsq[v] = total_sq;
    });
  }
  const std::int64_t plane = f.band.plane_floats;
  for_each<kVectors, kPixels>([&](int v, int p) { store(y + v * plane + p * kLanes, sum[p][v]); });
}

template <int kVectors>
void forward_row(const FirstConvForwardBand& f, std::int64_t row, std::int64_t vector) {
  const FirstConvBand& band = f.band;
  const float* x = band.x + row * band.x_row_step;
  float* y = f.y + vector * band.plane_floats + row * band.columns * kLanes;
  RowStats stats{};
  if (f.stat_sum && f.stat_center) {
    for (int v = 0; v < kVectors; ++v) stats.center[v] = load(f.stat_center + (vector + v) * kLanes);
  }
  auto tile = [&]<int kPixels, int kV>(std::int64_t column, std::int64_t first_vector) {
    forward_tile<kPixels, kV>(f, x + column, first_vector, y + column * kLanes, f.stat_sum ? &stats : nullptr);
  };
  for_each_piece<kVectors>(band.columns, vector, tile);
  if (!f.stat_sum) return;
  for (int v = 0; v < kVectors; ++v) {
    for (int lane = 0; lane < kLanes; ++lane) {
      f.stat_sum[(vector + v) * kLanes + lane] += static_cast<double>(stats.sum[v][lane]);
      f.stat_sumsq[(vector + v) * kLanes + lane] += static_cast<double>(stats.sumsq[v][lane]);
    }
  }
}

template <int kVectors>
void forward_rows(const FirstConvForwardBand& f, std::int64_t vector) {
  for (std::int64_t row = 0; row < f.band.rows; ++row) forward_row<kVectors>(f, row, vector);
}

// All rows of some output channels before the next: y is then written in long runs.
void forward(const FirstConvForwardBand& f) {
  std::int64_t vector = 0;
  if constexpr (kMaxVectors == 4) {
    for (; vector + 4 <= f.band.out_vectors; vector += 4) forward_rows<4>(f, vector);
  }
  for (; vector + 2 <= f.band.out_vectors; vector += 2) forward_rows<2>(f, vector);
  if (vector < f.band.out_vectors) forward_rows<1>(f, vector);
}

// ---- weight gradient

template <int kTaps, int kVectors>
void weights_tile(const FirstConvBand& band, const float* x, const float* dy, std::int64_t rows, std::int64_t first_tap,
                  float* dw) {
  Vec sum[kTaps][kVectors] = {};
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* pixels[kTaps];
    for_each<kTaps, 1>([&](int t, int) { pixels[t] = x + row * band.x_row_step + band.taps[first_tap + t]; });
    const float* gradient = dy + row * band.columns * kLanes;
    for (std::int64_t column = 0; column < band.columns; ++column, gradient += kLanes) {
      Vec gradients[kVectors];
      for_each<1, kVectors>([&](int, int v) { gradients[v] = load(gradient + v * band.plane_floats); });
      for_each<kTaps, 1>([&](int t, int) {
        const Vec pixel = broadcast(pixels[t][column]);
        for_each<1, kVectors>([&](int, int v) { sum[t][v] = fma(pixel, gradients[v], sum[t][v]); });
      });
    }
  }
  for_each<kTaps, kVectors>([&](int t, int v) {
    float* out = dw + (v * band.tap_count + first_tap + t) * kLanes;
    store(out, load(out) + sum[t][v]);
  });
}

template <int kVectors>
void weights_rows(const FirstConvWeightsBand& g, std::int64_t row, std::int64_t rows, std::int64_t vector) {
  const FirstConvBand& band = g.band;
  const float* x = band.x + row * band.x_row_step;
  const float* dy = g.dy + vector * band.plane_floats + row * band.columns * kLanes;
  float* dw = g.dw + vector * band.tap_count * kLanes;
  auto tile = [&]<int kTaps, int kV>(std::int64_t first_tap, std::int64_t) {
    weights_tile<kTaps, kV>(band, x, dy, rows, first_tap, dw);
  };
  for_each_piece<kVectors>(band.tap_count, vector, tile);
  if (!g.dbias) return;
  Vec sum[kVectors] = {};
  for (std::int64_t pixel = 0; pixel < rows * band.columns; ++pixel) {
    for (int v = 0; v < kVectors; ++v) sum[v] += load(dy + v * band.plane_floats + pixel * kLanes);
  }
  for (int v = 0; v < kVectors; ++v) {
    float* dbias = g.dbias + (vector + v) * kLanes;
    store(dbias, load(dbias) + sum[v]);
  }
}

void backward_weights(const FirstConvWeightsBand& g) {
  const std::int64_t row_bytes = g.band.columns * kMaxVectors * static_cast<std::int64_t>(sizeof(Vec));
  const std::int64_t step = larger(1, kGradientPixelsBytes / row_bytes);
  for (std::int64_t row = 0; row < g.band.rows; row += step) {
    const std::int64_t rows = smaller(step, g.band.rows - row);
    std::int64_t vector = 0;
    if constexpr (kMaxVectors == 4) {
      for (; vector + 4 <= g.band.out_vectors; vector += 4) weights_rows<4>(g, row, rows, vector);
    }
    for (; vector + 2 <= g.band.out_vectors; vector += 2) weights_rows<2>(g, row, rows, vector);
    if (vector < g.band.out_vectors) weights_rows<1>(g, row, rows, vector);
  }
}

}  // namespace

extern const FirstConvLoops first_conv_loops_table;
const FirstConvLoops first_conv_loops_table = {
    .lanes = kLanes, .copy = copy, .forward = forward, .backward_weights = backward_weights};

}  // namespace trifold::cpu::TRIFOLD_ISA
