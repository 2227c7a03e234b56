#include "kernels/cpu/winograd_plan.h"

#include <algorithm>

#include "core/divide.h"

namespace trifold::cpu {
namespace {

// What the blocks are made to fit: sized for 512 KiB of second-level cache a core and 32 MiB of last-level cache. Tried
// with one thread on a busy machine only, where most alternatives differed by less than the noise.
constexpr std::int64_t kOwnCacheBytes = 320 << 10;       // a thread's tiles between transform and product
constexpr std::int64_t kSharedCacheBytes = 8 << 20;      // tiles that all threads share
constexpr std::int64_t kWholeWeightsBytes = 2560 << 10;  // transformed weights that are read again for every block
constexpr std::int64_t kWholeGradientBytes = 300 << 10;  // transformed weight gradient that every thread has for itself
constexpr std::int64_t kFewestTiles = 12;                // of a block, whatever the cache
constexpr std::int64_t kSharedTiles = 128;               // enough to pay for transforming weights once a block
constexpr std::int64_t kSharedGradientTiles = 256;       // enough to pay for reading and writing the sums once a block
constexpr std::int64_t kDepthChannels = 64;              // of weights transformed at a time
constexpr std::int64_t kGroupChannels = 128;             // of input whose weight gradients are summed at a time

constexpr std::int64_t kFrequencyBytes = kWinogradFrequencies * sizeof(float);

WinogradGeometry geometry_of(const WinogradShape& shape, int lanes) {
  WinogradGeometry g;
  g.batch = shape.batch;
  g.in_blocks = shape.in_channels / lanes;
  g.out_blocks = shape.out_channels / lanes;
  g.in_height = static_cast<int>(shape.height);
  g.in_width = static_cast<int>(shape.width);
  g.out_height = g.in_height + 2 * shape.pad_h - 2;
  g.out_width = g.in_width + 2 * shape.pad_w - 2;
  g.pad_h = shape.pad_h;
  g.pad_w = shape.pad_w;
  g.tile_rows = static_cast<int>(ceil_div(g.out_height, kWinogradOutput));
  g.tile_columns = static_cast<int>(ceil_div(g.out_width, kWinogradOutput));
  g.tiles = g.batch * g.tile_rows * g.tile_columns;
  return g;
}

// The input gradient reads dy and writes dx: a convolution of the output's size back to the input's.
WinogradShape reversed(const WinogradShape& shape) {
  WinogradShape back = shape;
  back.in_channels = shape.out_channels;
  back.out_channels = shape.in_channels;
  back.height = shape.height + 2 * shape.pad_h - 2;
  back.width = shape.width + 2 * shape.pad_w - 2;
  back.pad_h = 2 - shape.pad_h;
  back.pad_w = 2 - shape.pad_w;
  return back;
}

// Cuts `tiles` into equal blocks of at most `most`, each a multiple of what a product takes at once.
std::int64_t tile_block(std::int64_t tiles, std::int64_t most, int multiple) {
  most = std::max<std::int64_t>(most / multiple, 1) * multiple;
  return ceil_div(ceil_div(tiles, ceil_div(tiles, most)), multiple) * multiple;
}

// Lays regions out one after the other.
class ScratchLayout {
 public:
  WinogradRegion add(std::int64_t part_bytes, int parts) {
    constexpr std::int64_t kLine = 64;
    const std::size_t bytes = static_cast<std::size_t>(ceil_div(part_bytes, kLine) * kLine);
    const WinogradRegion region{.offset = size_, .part_bytes = bytes};
    size_ += bytes * static_cast<std::size_t>(parts);
    return region;
  }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_ = 0;
};

std::int64_t planes_bytes(std::int64_t blocks, std::int64_t tiles, int lanes) {
  return winograd_plane_stride(blocks * tiles * lanes) * kFrequencyBytes;
}

}  // namespace

WinogradConvolutionPlan plan_winograd_convolution(const WinogradShape& shape, bool for_input_gradient, int threads,
                                                  const WinogradLoops& loops) {
  const int lanes = loops.lanes;
  WinogradConvolutionPlan plan;
  plan.geometry = geometry_of(for_input_gradient ? reversed(shape) : shape, lanes);
  plan.for_input_gradient = for_input_gradient;
  const WinogradGeometry& g = plan.geometry;
  const std::int64_t in_channels = g.in_blocks * lanes;
  const std::int64_t panel_channels = kWinogradPanel * lanes;
  const std::int64_t weight_bytes = in_channels * g.out_blocks * lanes * kFrequencyBytes;
  const std::int64_t tiles_per_thread = ceil_div(g.tiles, threads);

  // With few panels there is nothing to share by channels, with few tiles nothing by tiles.
  const bool by_tiles =
      tiles_per_thread >= 4 * loops.tile_rows && (weight_bytes <= kWholeWeightsBytes || g.panels() < 2 * threads);
  ScratchLayout layout;
  if (by_tiles) {
    plan.split = WinogradSplit::tiles;
    const std::int64_t most = kOwnCacheBytes / ((in_channels + panel_channels) * kFrequencyBytes);
    plan.tile_block = tile_block(tiles_per_thread, std::max(most, kFewestTiles), loops.tile_rows);
    plan.depth_block = g.in_blocks;
    const std::int64_t plane = winograd_plane_stride(in_channels * panel_channels);
    plan.weights = layout.add(g.panels() * plane * kFrequencyBytes, 1);
    plan.input = layout.add(planes_bytes(g.in_blocks, plan.tile_block, lanes), threads);
    plan.result = layout.add(planes_bytes(kWinogradPanel, plan.tile_block, lanes), threads);
    const std::int64_t groups = shape.stat_group ? ceil_div(shape.batch, shape.stat_group) : 1;
    plan.statistics = layout.add(groups * g.out_blocks * lanes * 2 * sizeof(double), threads);
  } else {
    plan.split = WinogradSplit::channels;
    plan.tile_block = tile_block(g.tiles, kSharedTiles, loops.tile_rows);
    plan.depth_block = std::min<std::int64_t>(g.in_blocks, kDepthChannels / lanes);
    const std::int64_t plane = winograd_plane_stride(plan.depth_block * lanes * panel_channels);
    plan.weights = layout.add(plane * kFrequencyBytes, threads);
    plan.input = layout.add(planes_bytes(g.in_blocks, plan.tile_block, lanes), 1);
    plan.result = layout.add(planes_bytes(kWinogradPanel, plan.tile_block, lanes), threads);
  }
  plan.scratch_bytes = layout.size();
  return plan;
}

WinogradWeightsPlan plan_winograd_weights(const WinogradShape& shape, int threads, const WinogradLoops& loops) {
  const int lanes = loops.lanes;
  WinogradWeightsPlan plan;
  plan.geometry = geometry_of(shape, lanes);
  const WinogradGeometry& g = plan.geometry;
  const std::int64_t in_channels = g.in_blocks * lanes;
  const std::int64_t out_channels = g.out_blocks * lanes;
  const std::int64_t panel_channels = kWinogradPanel * lanes;
  const std::int64_t sum_bytes = in_channels * out_channels * kFrequencyBytes;

  const bool by_tiles = sum_bytes <= kWholeGradientBytes || g.panels() < threads;
  ScratchLayout layout;
  std::int64_t parts = 1;
  if (by_tiles) {
    plan.split = WinogradSplit::tiles;
    parts = threads;
    plan.in_group = g.in_blocks;
    const std::int64_t most = kOwnCacheBytes / ((in_channels + out_channels) * kFrequencyBytes);
    plan.tile_block = tile_block(ceil_div(g.tiles, threads), std::max(most, kFewestTiles), 2);
  } else {
    plan.split = WinogradSplit::channels;
    plan.in_group = std::min<std::int64_t>(g.in_blocks, kGroupChannels / lanes);
    const std::int64_t most = kSharedCacheBytes / ((plan.in_group * lanes + out_channels) * kFrequencyBytes);
    plan.tile_block = tile_block(g.tiles, std::clamp(most, kFewestTiles, kSharedGradientTiles), 2);
  }
  const std::int64_t sums_plane = winograd_plane_stride(plan.in_group * lanes * panel_channels);
  plan.input = layout.add(planes_bytes(plan.in_group, plan.tile_block, lanes), static_cast<int>(parts));
  plan.gradient = layout.add(planes_bytes(g.out_blocks, plan.tile_block, lanes), static_cast<int>(parts));
  plan.sums = layout.add(g.panels() * sums_plane * kFrequencyBytes, static_cast<int>(parts));
  plan.bias = layout.add(out_channels * static_cast<std::int64_t>(sizeof(double)), threads);
  plan.scratch_bytes = layout.size();
  return plan;
}

}  // namespace trifold::cpu
