// The matrix products of Winograd, one per frequency: tiles x channels for activations (winograd_multiply) and
// channels x channels, summed over tiles, for weights (winograd_multiply_weights). Accumulators live in registers.
#include "kernels/cpu/simd/winograd_passes.h"

namespace trifold::cpu::TRIFOLD_ISA {

namespace {

constexpr int kLineFloats = 16;  // of a cache line

// Rows tiles x Width vectors of result channels, over all the depth.
template <int Rows, int Width, bool kAccumulate>
inline void multiply_tile(const WinogradProduct& args, const float* input, const float* weights, float* result) {
  Vec sums[Rows][Width];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int w = 0; w < Width; ++w) {
      sums[r][w] = kAccumulate ? load(result + w * args.result.block_stride + r * kLanes) : zero();
    }
  }
  for (std::int64_t block = args.depth_count; block > 0; --block, input += args.input.block_stride) {
    // The next rows come from another cache line of the same block: fetch them while these are used.
    for (int r = 0; r < Rows; r += kLineFloats / kLanes) __builtin_prefetch(input + (Rows + r) * kLanes);
#pragma GCC unroll 16
    for (int c = 0; c < kLanes; ++c, weights += Width * kLanes) {
      Vec column[Width];
#pragma GCC unroll 2
      for (int w = 0; w < Width; ++w) column[w] = load(weights + w * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const Vec x = broadcast(input[r * kLanes + c]);
#pragma GCC unroll 2
        for (int w = 0; w < Width; ++w) sums[r][w] = fma(x, column[w], sums[r][w]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int w = 0; w < Width; ++w) store(result + w * args.result.block_stride + r * kLanes, sums[r][w]);
  }
}

template <int Rows, int Width, bool kAccumulate>
void multiply_tail(std::int64_t rows, const WinogradProduct& args, const float* input, const float* weights,
                   float* result) {
  if constexpr (Rows > 0) {
    if (rows == Rows) return multiply_tile<Rows, Width, kAccumulate>(args, input, weights, result);
    multiply_tail<Rows - 1, Width, kAccumulate>(rows, args, input, weights, result);
  }
}

template <int Width, bool kAccumulate>
void multiply_panel(const WinogradProduct& args) {
  for (int f = 0; f < kWinogradFrequencies; ++f) {
    const float* input = args.input.data + f * args.input.frequency_stride;
    const float* weights = args.weights + f * args.weights_frequency_stride;
    float* result = args.result.data + f * args.result.frequency_stride;
    std::int64_t tile = 0;
    for (; tile + kTileRows <= args.tiles; tile += kTileRows) {
      multiply_tile<kTileRows, Width, kAccumulate>(args, input + tile * kLanes, weights, result + tile * kLanes);
    }
    multiply_tail<kTileRows - 1, Width, kAccumulate>(args.tiles - tile, args, input + tile * kLanes, weights,
                                                     result + tile * kLanes);
  }
}

// Input channels that a weight product takes at once. With AVX2 they straddle channel blocks, because 6 x 2
// accumulators suit 16 registers better than 4 x 2 do; with more registers, half a block is enough.
#if defined(__AVX512F__)
constexpr int kChannelRows = 8;
#elif defined(__AVX2__)
constexpr int kChannelRows = 6;
#else
constexpr int kChannelRows = 2;
#endif

template <int Rows, int Width>
void multiply_weight_tile(const WinogradWeightProduct& args, const float* input, const float* gradient,
                          std::int64_t channel, float* result) {
  const float* row[Rows];
  for (int r = 0; r < Rows; ++r) {
    row[r] = input + (channel + r) / kLanes * args.input.block_stride + (channel + r) % kLanes;
  }
  Vec sums[Rows][Width];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int w = 0; w < Width; ++w) sums[r][w] = args.accumulate ? load(result + (r * Width + w) * kLanes) : zero();
  }
  const std::int64_t end = args.tiles * kLanes;
  const std::int64_t gradient_stride = args.gradient.block_stride;
  for (std::int64_t i = 0; i < end; i += kLanes) {
    Vec column[Width];
    for (int w = 0; w < Width; ++w) column[w] = load(gradient + w * gradient_stride + i);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Vec x = broadcast(row[r][i]);
      for (int w = 0; w < Width; ++w) sums[r][w] = fma(x, column[w], sums[r][w]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int w = 0; w < Width; ++w) store(result + (r * Width + w) * kLanes, sums[r][w]);
  }
}

template <int Rows, int Width>
void multiply_weight_rows(std::int64_t rows, const WinogradWeightProduct& args, const float* input,
                          const float* gradient, std::int64_t channel, float* result) {
  if constexpr (Rows > 0) {
    if (rows == Rows) return multiply_weight_tile<Rows, Width>(args, input, gradient, channel, result);
    multiply_weight_rows<Rows - 1, Width>(rows, args, input, gradient, channel, result);
  }
}

template <int Width>
void multiply_weight_panel(const WinogradWeightProduct& args, const float* input, const float* gradient,
                           float* result) {
  const std::int64_t channels = args.in_blocks * kLanes;
  const std::int64_t groups = (channels + kChannelRows - 1) / kChannelRows;  // of nearly equal length
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t channel = channels * g / groups;
    const std::int64_t rows = channels * (g + 1) / groups - channel;
    multiply_weight_rows<kChannelRows, Width>(rows, args, input, gradient, channel, result + channel * Width * kLanes);
  }
}

}  // namespace

void winograd_multiply(const WinogradProduct& args) {
  if (args.panel_width == kWinogradPanel) {
    args.accumulate ? multiply_panel<kWinogradPanel, true>(args) : multiply_panel<kWinogradPanel, false>(args);
  } else {
    args.accumulate ? multiply_panel<1, true>(args) : multiply_panel<1, false>(args);
  }
}

void winograd_multiply_weights(const WinogradWeightProduct& args) {
  for (int f = 0; f < kWinogradFrequencies; ++f) {
    const float* input = args.input.data + f * args.input.frequency_stride;
    const float* gradient = args.gradient.data + f * args.gradient.frequency_stride;
    float* result = args.result + f * args.frequency_stride;
    for (std::int64_t block = 0; block < args.out_blocks; block += kWinogradPanel, result += args.panel_stride) {
      const float* columns = gradient + block * args.gradient.block_stride;
      if (block + kWinogradPanel <= args.out_blocks) {
        multiply_weight_panel<kWinogradPanel>(args, input, columns, result);
      } else {
        multiply_weight_panel<1>(args, input, columns, result);
      }
    }
  }
}

}  // namespace trifold::cpu::TRIFOLD_ISA
