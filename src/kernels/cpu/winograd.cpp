#include "kernels/cpu/winograd.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"

namespace trifold::cpu {
namespace {

template <class T>
T* part_of(std::byte* scratch, const WinogradRegion& region, int part) {
  return reinterpret_cast<T*>(scratch + region.offset + region.part_bytes * static_cast<std::size_t>(part));
}

WinogradPlanes planes_at(float* data, std::int64_t blocks, std::int64_t tile_block, int lanes) {
  const std::int64_t block_stride = tile_block * lanes;
  return {.data = data, .frequency_stride = winograd_plane_stride(blocks * block_stride), .block_stride = block_stride};
}

// The same planes, from a later block or tile on.
WinogradPlanes from_block(WinogradPlanes planes, std::int64_t block) {
  planes.data += block * planes.block_stride;
  return planes;
}
WinogradPlanes from_tile(WinogradPlanes planes, std::int64_t tile, int lanes) {
  planes.data += tile * lanes;
  return planes;
}

WinogradTiles tiles_of(const WinogradGeometry& g, std::int64_t first, std::int64_t count) {
  return {.first = first, .count = count, .rows = g.tile_rows, .columns = g.tile_columns};
}

// Args is of the forward pass or of the weight gradient: both read x, through the same optional prologue.
template <class Args>
WinogradInput input_of(const WinogradGeometry& g, const Args& args, Range blocks, const WinogradTiles& tiles,
                       const WinogradPlanes& planes) {
  return {.x = args.x,
          .image = {.total_blocks = g.in_blocks,
                    .first_block = blocks.begin,
                    .block_count = blocks.size(),
                    .height = g.in_height,
                    .width = g.in_width},
          .pad_h = g.pad_h,
          .pad_w = g.pad_w,
          .scale = args.in_scale,
          .shift = args.in_shift,
          .relu = args.in_relu,
          .tiles = tiles,
          .planes = planes};
}

WinogradImage output_image(const WinogradGeometry& g, std::int64_t first_block, std::int64_t block_count) {
  return {.total_blocks = g.out_blocks,
          .first_block = first_block,
          .block_count = block_count,
          .height = g.out_height,
          .width = g.out_width};
}

int panel_width(const WinogradGeometry& g, std::int64_t panel) {
  return static_cast<int>(std::min<std::int64_t>(kWinogradPanel, g.out_blocks - panel * kWinogradPanel));
}

// Runs body(part) for every part of `parts`, whatever size the team has: the parts, and so the sums, stay the same.
template <class Body>
void for_parts(int parts, Body&& body) {
  parallel([&](int thread, int threads) {
    for (int part = thread; part < parts; part += threads) body(part);
  });
}

}  // namespace

bool Winograd::supports(const WinogradShape& shape, const WinogradLoops& loops) {
  const auto pad_fits = [](int pad) { return pad >= 0 && pad <= 2; };
  return shape.batch > 0 && shape.in_channels > 0 && shape.in_channels % loops.lanes == 0 && shape.out_channels > 0 &&
         shape.out_channels % loops.lanes == 0 && pad_fits(shape.pad_h) && pad_fits(shape.pad_w) && shape.height > 0 &&
         shape.width > 0 && shape.height + 2 * shape.pad_h > 2 && shape.width + 2 * shape.pad_w > 2;
}

Winograd::Winograd(const WinogradShape& shape, int threads, const WinogradLoops& loops)
    : stat_group_(shape.stat_group ? shape.stat_group : shape.batch), threads_(threads), loops_(&loops) {
  TRIFOLD_CHECK(supports(shape, loops),
                "Winograd takes 3x3 kernels with padding 0 to 2 and channels in multiples of {}", loops.lanes);
  TRIFOLD_CHECK(threads > 0, "a Winograd convolution for {} threads", threads);
  forward_ = plan_winograd_convolution(shape, false, threads, loops);
  backward_data_ = plan_winograd_convolution(shape, true, threads, loops);
  backward_weights_ = plan_winograd_weights(shape, threads, loops);
}

void Winograd::forward(const WinogradForwardArgs& args, std::byte* scratch) const {
  convolve(forward_, args, scratch);
}

void Winograd::backward_data(const WinogradBackwardDataArgs& args, std::byte* scratch) const {
  convolve(backward_data_, {.x = args.dy, .weights = args.weights, .y = args.dx}, scratch);
}

void Winograd::backward_weights(const WinogradBackwardWeightsArgs& args, std::byte* scratch) const {
  if (backward_weights_.split == WinogradSplit::tiles) return weights_by_tiles(args, scratch);
  weights_by_channels(args, scratch);
}

void Winograd::convolve(const Plan& plan, const WinogradForwardArgs& args, std::byte* scratch) const {
  if (plan.split == WinogradSplit::tiles) return convolve_by_tiles(plan, args, scratch);
  convolve_by_channels(plan, args, scratch);
}

// Everything of a block of tiles stays in the second-level cache; all weights are transformed beforehand.
void Winograd::convolve_by_tiles(const Plan& plan, const WinogradForwardArgs& args, std::byte* scratch) const {
  const WinogradGeometry& g = plan.geometry;
  const int lanes = loops_->lanes;
  const std::int64_t weights_stride = winograd_plane_stride(g.in_blocks * lanes * kWinogradPanel * lanes);
  const std::int64_t panel_stride = weights_stride * kWinogradFrequencies;
  float* transformed = part_of<float>(scratch, plan.weights, 0);
  // One unit of work is one block of depth of one panel.
  parallel_for(g.panels() * g.in_blocks, [&](Range range) {
    for (std::int64_t unit = range.begin; unit < range.end; ++unit) {
      const std::int64_t panel = unit / g.in_blocks, block = unit % g.in_blocks;
      const int width = panel_width(g, panel);
      loops_->transform_weights({.weights = args.weights,
                                 .in_blocks = plan.for_input_gradient ? g.out_blocks : g.in_blocks,
                                 .for_input_gradient = plan.for_input_gradient,
                                 .depth_first = block,
                                 .depth_count = 1,
                                 .panel_first = panel * kWinogradPanel,
                                 .panel_width = width,
                                 .transformed = transformed + panel * panel_stride + block * lanes * width * lanes,
                                 .frequency_stride = weights_stride});
    }
  });

  const std::int64_t out_channels = g.out_blocks * lanes;
  const std::int64_t statistics = args.stat_sum ? (g.batch + stat_group_ - 1) / stat_group_ * out_channels : 0;
  for_parts(threads_, [&](int part) {
    const WinogradPlanes input =
        planes_at(part_of<float>(scratch, plan.input, part), g.in_blocks, plan.tile_block, lanes);
    const WinogradPlanes result =
        planes_at(part_of<float>(scratch, plan.result, part), kWinogradPanel, plan.tile_block, lanes);
    double* sums = statistics ? part_of<double>(scratch, plan.statistics, part) : nullptr;
    if (sums) std::fill_n(sums, 2 * statistics, 0.0);
    const Range range = share(g.tiles, part, threads_);
    for (std::int64_t first = range.begin; first < range.end; first += plan.tile_block) {
      const WinogradTiles tiles = tiles_of(g, first, std::min(plan.tile_block, range.end - first));
      loops_->transform_input(input_of(g, args, {0, g.in_blocks}, tiles, input));
      for (std::int64_t panel = 0; panel < g.panels(); ++panel) {
        const int width = panel_width(g, panel);
        loops_->multiply({.input = input,
                          .depth_count = g.in_blocks,
                          .weights = transformed + panel * panel_stride,
                          .weights_frequency_stride = weights_stride,
                          .panel_width = width,
                          .tiles = tiles.count,
                          .accumulate = false,
                          .result = result});
        loops_->transform_output({.y = args.y,
                                  .image = output_image(g, panel * kWinogradPanel, width),
                                  .bias = args.bias,
                                  .relu = args.relu,
                                  .stat_center = args.stat_center,
                                  .stat_sum = sums,
                                  .stat_sumsq = sums + statistics,
                                  .stat_group = stat_group_,
                                  .tiles = tiles,
                                  .planes = result});
      }
    }
  });
  for (std::int64_t i = 0; i < statistics; ++i) {
    double sum = 0, sumsq = 0;
    for (int part = 0; part < threads_; ++part) {
      const double* sums = part_of<double>(scratch, plan.statistics, part);
      sum += sums[i];
      sumsq += sums[statistics + i];
    }
    args.stat_sum[i] = sum;
    args.stat_sumsq[i] = sumsq;
  }
}

// All threads share a block of transformed tiles in the last-level cache. Each transforms the weights of its own output
// channels as it needs them, which costs less than reading four times as many bytes from memory.
void Winograd::convolve_by_channels(const Plan& plan, const WinogradForwardArgs& args, std::byte* scratch) const {
  const WinogradGeometry& g = plan.geometry;
  const int lanes = loops_->lanes;
  const WinogradPlanes input = planes_at(part_of<float>(scratch, plan.input, 0), g.in_blocks, plan.tile_block, lanes);
  const std::int64_t weights_stride = winograd_plane_stride(plan.depth_block * lanes * kWinogradPanel * lanes);
  if (args.stat_sum) {
    const std::int64_t statistics = (g.batch + stat_group_ - 1) / stat_group_ * g.out_blocks * lanes;
    std::fill_n(args.stat_sum, statistics, 0.0);
    std::fill_n(args.stat_sumsq, statistics, 0.0);
  }
  for (std::int64_t first = 0; first < g.tiles; first += plan.tile_block) {
    const WinogradTiles tiles = tiles_of(g, first, std::min(plan.tile_block, g.tiles - first));
    for_parts(threads_, [&](int part) {
      const Range range = share(tiles.count, part, threads_);
      loops_->transform_input(input_of(g, args, {0, g.in_blocks}, tiles_of(g, first + range.begin, range.size()),
                                       from_tile(input, range.begin, lanes)));
    });
    for_parts(threads_, [&](int part) {
      float* transformed = part_of<float>(scratch, plan.weights, part);
      const WinogradPlanes result =
          planes_at(part_of<float>(scratch, plan.result, part), kWinogradPanel, plan.tile_block, lanes);
      const Range panels = share(g.panels(), part, threads_);
      for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
        const int width = panel_width(g, panel);
        for (std::int64_t depth = 0; depth < g.in_blocks; depth += plan.depth_block) {
          const std::int64_t depth_count = std::min(plan.depth_block, g.in_blocks - depth);
          loops_->transform_weights({.weights = args.weights,
                                     .in_blocks = plan.for_input_gradient ? g.out_blocks : g.in_blocks,
                                     .for_input_gradient = plan.for_input_gradient,
                                     .depth_first = depth,
                                     .depth_count = depth_count,
                                     .panel_first = panel * kWinogradPanel,
                                     .panel_width = width,
                                     .transformed = transformed,
                                     .frequency_stride = weights_stride});
          loops_->multiply({.input = from_block(input, depth),
                            .depth_count = depth_count,
                            .weights = transformed,
                            .weights_frequency_stride = weights_stride,
                            .panel_width = width,
                            .tiles = tiles.count,
                            .accumulate = depth > 0,
                            .result = result});
        }
        loops_->transform_output({.y = args.y,
                                  .image = output_image(g, panel * kWinogradPanel, width),
                                  .bias = args.bias,
                                  .relu = args.relu,
                                  .stat_center = args.stat_center,
                                  .stat_sum = args.stat_sum,
                                  .stat_sumsq = args.stat_sumsq,
                                  .stat_group = stat_group_,
                                  .tiles = tiles,
                                  .planes = result});
      }
    });
  }
}

// Every thread sums over its own tiles, for all channels; the sums are added up at the end.
void Winograd::weights_by_tiles(const WinogradBackwardWeightsArgs& args, std::byte* scratch) const {
  const WinogradWeightsPlan& plan = backward_weights_;
  const WinogradGeometry& g = plan.geometry;
  const int lanes = loops_->lanes;
  const std::int64_t frequency_stride = winograd_plane_stride(g.in_blocks * lanes * kWinogradPanel * lanes);
  const std::int64_t panel_stride = frequency_stride * kWinogradFrequencies;
  for_parts(threads_, [&](int part) {
    const WinogradPlanes input =
        planes_at(part_of<float>(scratch, plan.input, part), g.in_blocks, plan.tile_block, lanes);
    const WinogradPlanes gradient =
        planes_at(part_of<float>(scratch, plan.gradient, part), g.out_blocks, plan.tile_block, lanes);
    float* sums = part_of<float>(scratch, plan.sums, part);
    double* bias = part_of<double>(scratch, plan.bias, part);
    std::fill_n(bias, g.out_blocks * lanes, 0.0);
    const Range range = share(g.tiles, part, threads_);
    if (range.empty()) std::fill_n(sums, g.panels() * panel_stride, 0.0f);
    for (std::int64_t first = range.begin; first < range.end; first += plan.tile_block) {
      const WinogradTiles tiles = tiles_of(g, first, std::min(plan.tile_block, range.end - first));
      loops_->transform_input(input_of(g, args, {0, g.in_blocks}, tiles, input));
      loops_->transform_gradient({.dy = args.dy,
                                  .image = output_image(g, 0, g.out_blocks),
                                  .bias_sum = bias,
                                  .tiles = tiles,
                                  .planes = gradient});
      loops_->multiply_weights({.input = input,
                                .in_blocks = g.in_blocks,
                                .gradient = gradient,
                                .out_blocks = g.out_blocks,
                                .tiles = tiles.count,
                                .accumulate = first > range.begin,
                                .result = sums,
                                .panel_stride = panel_stride,
                                .frequency_stride = frequency_stride});
    }
  });
  float* total = part_of<float>(scratch, plan.sums, 0);
  parallel_for(g.panels(), [&](Range panels) {
    for (int part = 1; part < threads_; ++part) {
      const float* sums = part_of<float>(scratch, plan.sums, part);
      for (std::int64_t i = panels.begin * panel_stride; i < panels.end * panel_stride; ++i) total[i] += sums[i];
    }
    for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
      loops_->transform_weight_gradient({.transformed = total + panel * panel_stride,
                                         .frequency_stride = frequency_stride,
                                         .panel_width = panel_width(g, panel),
                                         .in_block_count = g.in_blocks,
                                         .in_block_first = 0,
                                         .in_blocks = g.in_blocks,
                                         .panel_first = panel * kWinogradPanel,
                                         .weights = args.dw});
    }
  });
  store_bias_gradient(args, scratch);
}

// All threads share a block of transformed tiles; each sums the gradients of its own output channels, for one group of
// input channels after the other, so that the sums stay in cache. dy is transformed anew for every group.
void Winograd::weights_by_channels(const WinogradBackwardWeightsArgs& args, std::byte* scratch) const {
  const WinogradWeightsPlan& plan = backward_weights_;
  const WinogradGeometry& g = plan.geometry;
  const int lanes = loops_->lanes;
  const WinogradPlanes input = planes_at(part_of<float>(scratch, plan.input, 0), plan.in_group, plan.tile_block, lanes);
  const WinogradPlanes gradient =
      planes_at(part_of<float>(scratch, plan.gradient, 0), g.out_blocks, plan.tile_block, lanes);
  float* sums = part_of<float>(scratch, plan.sums, 0);
  const std::int64_t frequency_stride = winograd_plane_stride(plan.in_group * lanes * kWinogradPanel * lanes);
  const std::int64_t panel_stride = frequency_stride * kWinogradFrequencies;
  for (std::int64_t group = 0; group < g.in_blocks; group += plan.in_group) {
    const Range blocks{group, std::min(group + plan.in_group, g.in_blocks)};
    for (std::int64_t first = 0; first < g.tiles; first += plan.tile_block) {
      const std::int64_t count = std::min(plan.tile_block, g.tiles - first);
      for_parts(threads_, [&](int part) {
        const Range range = share(count, part, threads_);
        const WinogradTiles tiles = tiles_of(g, first + range.begin, range.size());
        double* bias = part_of<double>(scratch, plan.bias, part);
        if (group == 0 && first == 0) std::fill_n(bias, g.out_blocks * lanes, 0.0);
        loops_->transform_input(input_of(g, args, blocks, tiles, from_tile(input, range.begin, lanes)));
        loops_->transform_gradient({.dy = args.dy,
                                    .image = output_image(g, 0, g.out_blocks),
                                    .bias_sum = group == 0 ? bias : nullptr,
                                    .tiles = tiles,
                                    .planes = from_tile(gradient, range.begin, lanes)});
      });
      for_parts(threads_, [&](int part) {
        const Range panels = share(g.panels(), part, threads_);
        const std::int64_t out_first = panels.begin * kWinogradPanel;
        loops_->multiply_weights({.input = input,
                                  .in_blocks = blocks.size(),
                                  .gradient = from_block(gradient, out_first),
                                  .out_blocks = std::min(panels.end * kWinogradPanel, g.out_blocks) - out_first,
                                  .tiles = count,
                                  .accumulate = first > 0,
                                  .result = sums + panels.begin * panel_stride,
                                  .panel_stride = panel_stride,
                                  .frequency_stride = frequency_stride});
        if (first + count < g.tiles) return;
        for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
          loops_->transform_weight_gradient({.transformed = sums + panel * panel_stride,
                                             .frequency_stride = frequency_stride,
                                             .panel_width = panel_width(g, panel),
                                             .in_block_count = blocks.size(),
                                             .in_block_first = blocks.begin,
                                             .in_blocks = g.in_blocks,
                                             .panel_first = panel * kWinogradPanel,
                                             .weights = args.dw});
        }
      });
    }
  }
  store_bias_gradient(args, scratch);
}

void Winograd::store_bias_gradient(const WinogradBackwardWeightsArgs& args, std::byte* scratch) const {
  if (!args.db) return;
  for (std::int64_t o = 0; o < backward_weights_.geometry.out_blocks * loops_->lanes; ++o) {
    double sum = 0;
    for (int part = 0; part < threads_; ++part) sum += part_of<double>(scratch, backward_weights_.bias, part)[o];
    args.db[o] = static_cast<float>(sum);
  }
}

}  // namespace trifold::cpu
