// How a Winograd convolution is cut into blocks that fit the caches and shared among threads, and where the parts of
// its scratch memory lie. Decided once per shape; kernels/cpu/winograd.h runs it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/winograd_loops.h"

namespace trifold::cpu {

struct WinogradShape {
  std::int64_t batch = 0;
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t height = 0;  // of the input; the output has height + 2 * pad_h - 2
  std::int64_t width = 0;
  int pad_h = 0;  // 0 to 2
  int pad_w = 0;
  std::int64_t stat_group = 0;  // samples that share batch-norm statistics; 0: the whole batch
};

struct WinogradGeometry {
  std::int64_t batch = 0;
  std::int64_t in_blocks = 0;  // channels / lanes
  std::int64_t out_blocks = 0;
  int in_height = 0, in_width = 0;
  int out_height = 0, out_width = 0;
  int pad_h = 0, pad_w = 0;
  int tile_rows = 0, tile_columns = 0;  // of one image
  std::int64_t tiles = 0;               // of the batch

  std::int64_t panels() const { return (out_blocks + kWinogradPanel - 1) / kWinogradPanel; }
};

// Threads either take tiles of their own, or take output channels of the same tiles.
enum class WinogradSplit { tiles, channels };

// Bytes of the scratch: one part per thread, or one that all share.
struct WinogradRegion {
  std::size_t offset = 0;
  std::size_t part_bytes = 0;
};

// Forward, or the input gradient, which is the same with the two channel counts exchanged.
struct WinogradConvolutionPlan {
  WinogradGeometry geometry;
  bool for_input_gradient = false;
  WinogradSplit split = WinogradSplit::tiles;
  std::int64_t tile_block = 0;   // tiles that are transformed together
  std::int64_t depth_block = 0;  // blocks of input channels whose weights are transformed together
  // Split by tiles: weights are shared and whole. By channels: the input is shared, weights are one panel's part.
  WinogradRegion weights, input, result, statistics;
  std::size_t scratch_bytes = 0;
};

struct WinogradWeightsPlan {
  WinogradGeometry geometry;
  WinogradSplit split = WinogradSplit::tiles;
  std::int64_t tile_block = 0;
  std::int64_t in_group = 0;  // blocks of input channels whose gradients are summed at a time
  // Split by channels: input, gradient and sums are shared.
  WinogradRegion input, gradient, sums, bias;
  std::size_t scratch_bytes = 0;
};

// Floats between frequencies whose planes hold `floats`: an odd number of cache lines, since 36 planes that lie a
// multiple of 4 KiB apart would share one set of the first-level cache.
constexpr std::int64_t winograd_plane_stride(std::int64_t floats) {
  return (((floats + 15) / 16) | 1) * 16;
}

WinogradConvolutionPlan plan_winograd_convolution(const WinogradShape& shape, bool for_input_gradient, int threads,
                                                  const WinogradLoops& loops);
WinogradWeightsPlan plan_winograd_weights(const WinogradShape& shape, int threads, const WinogradLoops& loops);

}  // namespace trifold::cpu
