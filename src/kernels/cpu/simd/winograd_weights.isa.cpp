// Weights into frequencies (U = G g G^T, for either direction) and the gradient of frequencies back into that of
// weights (dg = G^T dU G).
#include "kernels/cpu/simd/winograd_passes.h"

namespace trifold::cpu::TRIFOLD_ISA {

namespace {

constexpr int kTaps = 9;
constexpr int kTapSize = kLanes * kLanes;

inline void expand(Vec g0, Vec g1, Vec g2, Vec* u) {
  const Vec sixth = broadcast(-1.0f / 6), twelfth = broadcast(1.0f / 12);
  const Vec ends = (g0 + g2) * sixth;
  const Vec mixed = fma(g0, broadcast(1.0f / 24), g2 * broadcast(1.0f / 6));
  u[0] = g0 * broadcast(0.25f);
  u[1] = fma(g1, sixth, ends);
  u[2] = ends - g1 * sixth;
  u[3] = fma(g1, twelfth, mixed);
  u[4] = mixed - g1 * twelfth;
  u[5] = g2;
}

inline void contract(const Vec* u, Vec* g) {
  const Vec sixth = broadcast(-1.0f / 6);
  const Vec s12 = u[1] + u[2], s34 = u[3] + u[4];
  g[0] = fma(u[0], broadcast(0.25f), fma(s12, sixth, s34 * broadcast(1.0f / 24)));
  g[1] = fma(u[1] - u[2], sixth, (u[3] - u[4]) * broadcast(1.0f / 12));
  g[2] = fma(s12, sixth, fma(s34, broadcast(1.0f / 6), u[5]));
}

inline Vec interleave_low(Vec a, Vec b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#else
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#endif
}

inline Vec interleave_high(Vec a, Vec b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#else
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#endif
}

// to[c][r] = from[r][c]: each pass rotates the bits of the element's address (row, lane) by one.
inline void transpose(const float* from, float* to) {
  Vec rows[kLanes];
  for (int r = 0; r < kLanes; ++r) rows[r] = load(from + r * kLanes);
#pragma GCC unroll 4
  for (int pass = 1; pass < kLanes; pass *= 2) {
    Vec mixed[kLanes];
#pragma GCC unroll 16
    for (int r = 0; r < kLanes / 2; ++r) {
      mixed[2 * r] = interleave_low(rows[r], rows[r + kLanes / 2]);
      mixed[2 * r + 1] = interleave_high(rows[r], rows[r + kLanes / 2]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kLanes; ++r) rows[r] = mixed[r];
  }
  for (int r = 0; r < kLanes; ++r) store(to + r * kLanes, rows[r]);
}

// One depth channel: 9 taps, kTapSize apart, to 36 frequencies.
inline void transform_taps(const float* taps, bool rotated, float* out, std::int64_t frequency_stride) {
  Vec rows[6][3];
  const int first = rotated ? kTaps - 1 : 0;
  const int step = rotated ? -kTapSize : kTapSize;
  const float* tap = taps + first * kTapSize;
#pragma GCC unroll 3
  for (int j = 0; j < 3; ++j) {
    Vec u[6];
    expand(load(tap + j * step), load(tap + (3 + j) * step), load(tap + (6 + j) * step), u);
    for (int i = 0; i < 6; ++i) rows[i][j] = u[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    Vec u[6];
    expand(rows[i][0], rows[i][1], rows[i][2], u);
    for (int j = 0; j < 6; ++j) store(out + (i * 6 + j) * frequency_stride, u[j]);
  }
}

}  // namespace

void winograd_transform_weights(const WinogradWeights& args) {
  alignas(64) float turned[kTaps * kTapSize];
  const std::int64_t row_size = std::int64_t{args.panel_width} * kLanes;
  for (std::int64_t d = 0; d < args.depth_count; ++d) {
    for (int p = 0; p < args.panel_width; ++p) {
      const std::int64_t depth_block = args.depth_first + d;
      const std::int64_t result_block = args.panel_first + p;
      const std::int64_t out_block = args.for_input_gradient ? depth_block : result_block;
      const std::int64_t in_block = args.for_input_gradient ? result_block : depth_block;
      const float* taps = args.weights + (out_block * args.in_blocks + in_block) * kTaps * kTapSize;
      if (args.for_input_gradient) {
        for (int k = 0; k < kTaps; ++k) transpose(taps + k * kTapSize, turned + k * kTapSize);
        taps = turned;
      }
      float* out = args.transformed + d * kLanes * row_size + p * kLanes;
      for (int c = 0; c < kLanes; ++c) {
        transform_taps(taps + c * kLanes, args.for_input_gradient, out + c * row_size, args.frequency_stride);
      }
    }
  }
}

void winograd_transform_weight_gradient(const WinogradWeightGradient& args) {
  const std::int64_t row_size = std::int64_t{args.panel_width} * kLanes;
  for (std::int64_t channel = 0; channel < args.in_block_count * kLanes; ++channel) {
    for (int p = 0; p < args.panel_width; ++p) {
      const float* from = args.transformed + channel * row_size + p * kLanes;
      Vec columns[3][6];
#pragma GCC unroll 6
      for (int j = 0; j < 6; ++j) {
        Vec u[6], g[3];
        for (int i = 0; i < 6; ++i) u[i] = load(from + (i * 6 + j) * args.frequency_stride);
        contract(u, g);
        for (int i = 0; i < 3; ++i) columns[i][j] = g[i];
      }
      const std::int64_t block = (args.panel_first + p) * args.in_blocks + args.in_block_first + channel / kLanes;
      float* to = args.weights + block * kTaps * kTapSize + channel % kLanes * kLanes;
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i) {
        Vec g[3];
        contract(columns[i], g);
        for (int j = 0; j < 3; ++j) store(to + (i * 3 + j) * kTapSize, g[j]);
      }
    }
  }
}

}  // namespace trifold::cpu::TRIFOLD_ISA
