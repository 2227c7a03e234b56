// Frequencies into outputs (Y = A^T M A, with bias, ReLU and batch-norm statistics on the way), and output gradients
// into frequencies (A dY A^T, with the bias gradient on the way). Tiles over the image's edge are cut off.
#include "kernels/cpu/simd/winograd_passes.h"

namespace trifold::cpu::TRIFOLD_ISA {

namespace {

constexpr int kWindow = 6;
constexpr int kTile = kWinogradOutput;
constexpr int kLineFloats = 16;  // of a cache line

inline void reduce_six(const Vec* m, Vec* y) {
  const Vec sum12 = m[1] + m[2], difference12 = m[1] - m[2];
  const Vec sum34 = m[3] + m[4], difference34 = m[3] - m[4];
  y[0] = m[0] + sum12 + sum34;
  y[1] = fma(broadcast(2), difference34, difference12);
  y[2] = fma(broadcast(4), sum34, sum12);
  y[3] = fma(broadcast(8), difference34, difference12) + m[5];
}

inline void spread_four(const Vec* y, Vec* m) {
  const Vec even = y[0] + y[2], odd = y[1] + y[3];
  const Vec even4 = fma(broadcast(4), y[2], y[0]);
  const Vec odd4 = fma(broadcast(8), y[3], y[1] + y[1]);
  m[0] = y[0];
  m[1] = even + odd;
  m[2] = even - odd;
  m[3] = even4 + odd4;
  m[4] = even4 - odd4;
  m[5] = y[3];
}

inline void add_lanes(double* to, Vec v) {
  for (int i = 0; i < kLanes; ++i) to[i] += static_cast<double>(v[i]);
}

inline int clipped(int first, int limit) {
  return limit - first < kTile ? limit - first : kTile;
}

inline void prefetch_tile(const float* tile, std::int64_t row_size) {
#pragma GCC unroll 4
  for (int i = 0; i < kTile; ++i) {
    for (int j = 0; j < kTile * kLanes; j += kLineFloats) __builtin_prefetch(tile + i * row_size + j);
  }
}

struct OutputBlock {
  Vec bias, floor, center;
  Vec sum, sumsq;
};

template <bool kStatistics>
void reduce_tile(const float* planes, std::int64_t frequency_stride, float* y, std::int64_t row_size, int rows,
                 int columns, OutputBlock& block) {
  Vec half[kTile][kWindow];
#pragma GCC unroll 6
  for (int j = 0; j < kWindow; ++j) {
    Vec m[kWindow], out[kTile];
#pragma GCC unroll 6
    for (int i = 0; i < kWindow; ++i) m[i] = load(planes + (i * kWindow + j) * frequency_stride);
    reduce_six(m, out);
#pragma GCC unroll 4
    for (int i = 0; i < kTile; ++i) half[i][j] = out[i];
  }
  const bool whole = rows == kTile && columns == kTile;
#pragma GCC unroll 4
  for (int i = 0; i < kTile; ++i, y += row_size) {
    Vec out[kTile];
    reduce_six(half[i], out);
#pragma GCC unroll 4
    for (int j = 0; j < kTile; ++j) {
      if (!whole && (i >= rows || j >= columns)) continue;
      const Vec value = max(block.floor, out[j] + block.bias);
      store(y + j * kLanes, value);
      if constexpr (kStatistics) {
        const Vec centred = value - block.center;
        block.sum += centred;
        block.sumsq = fma(centred, centred, block.sumsq);
      }
    }
  }
}

template <bool kStatistics>
void reduce_block(const WinogradOutput& args, std::int64_t b) {
  const WinogradImage& image = args.image;
  const std::int64_t channel = (image.first_block + b) * kLanes;
  const std::int64_t row_size = std::int64_t{image.width} * kLanes;
  OutputBlock block{.bias = args.bias ? load(args.bias + channel) : zero(),
                    .floor = args.relu ? zero() : broadcast(-__builtin_inff()),
                    .center = args.stat_center ? load(args.stat_center + channel) : zero(),
                    .sum = zero(),
                    .sumsq = zero()};
  std::int64_t group = args.tiles.first / (std::int64_t{args.tiles.rows} * args.tiles.columns) / args.stat_group;
  const auto flush = [&] {
    const std::int64_t at = group * image.total_blocks * kLanes + channel;
    add_lanes(args.stat_sum + at, block.sum);
    add_lanes(args.stat_sumsq + at, block.sumsq);
    block.sum = block.sumsq = zero();
  };
  for (WinogradRuns run(args.tiles); !run.done(); run.next()) {
    if constexpr (kStatistics) {
      if (run.sample / args.stat_group != group) {
        flush();
        group = run.sample / args.stat_group;
      }
    }
    const float* planes = args.planes.data + b * args.planes.block_stride + run.offset * kLanes;
    float* y = args.y + (run.sample * image.total_blocks + image.first_block + b) * image.height * row_size +
               run.row * kTile * row_size + run.column * kTile * kLanes;
    const int rows = clipped(run.row * kTile, image.height);
    for (int t = 0; t < run.length; ++t) {
      reduce_tile<kStatistics>(planes + t * kLanes, args.planes.frequency_stride, y + t * kTile * kLanes, row_size,
                               rows, clipped((run.column + t) * kTile, image.width), block);
    }
  }
  if constexpr (kStatistics) flush();
}

void spread_block(const WinogradGradient& args, std::int64_t b) {
  const WinogradImage& image = args.image;
  const std::int64_t row_size = std::int64_t{image.width} * kLanes;
  const std::int64_t frequency_stride = args.planes.frequency_stride;
  Vec sum = zero();
  for (WinogradRuns run(args.tiles); !run.done(); run.next()) {
    const float* dy = args.dy + (run.sample * image.total_blocks + image.first_block + b) * image.height * row_size +
                      run.row * kTile * row_size + run.column * kTile * kLanes;
    float* planes = args.planes.data + b * args.planes.block_stride + run.offset * kLanes;
    const int rows = clipped(run.row * kTile, image.height);
    for (int t = 0; t < run.length; ++t, dy += kTile * kLanes, planes += kLanes) {
      const int columns = clipped((run.column + t) * kTile, image.width);
      prefetch_tile(dy + kTile * row_size, row_size);  // one row of tiles lower
      Vec half[kWindow][kTile];
      if (rows == kTile && columns == kTile) {
#pragma GCC unroll 4
        for (int j = 0; j < kTile; ++j) {
          Vec d[kTile], m[kWindow];
          for (int i = 0; i < kTile; ++i) d[i] = load(dy + i * row_size + j * kLanes);
          spread_four(d, m);
          sum += m[1];  // the sum of the column
          for (int i = 0; i < kWindow; ++i) half[i][j] = m[i];
        }
      } else {
#pragma GCC unroll 4
        for (int j = 0; j < kTile; ++j) {
          Vec d[kTile], m[kWindow];
          for (int i = 0; i < kTile; ++i) {
            d[i] = i < rows && j < columns ? load(dy + i * row_size + j * kLanes) : zero();
          }
          spread_four(d, m);
          sum += m[1];
          for (int i = 0; i < kWindow; ++i) half[i][j] = m[i];
        }
      }
      float* row_out = planes;
#pragma GCC unroll 6
      for (int i = 0; i < kWindow; ++i, row_out += kWindow * frequency_stride) {
        Vec m[kWindow];
        spread_four(half[i], m);
        for (int j = 0; j < kWindow; ++j) store(row_out + j * frequency_stride, m[j]);
      }
    }
  }
  if (args.bias_sum) add_lanes(args.bias_sum + (image.first_block + b) * kLanes, sum);
}

}  // namespace

void winograd_transform_output(const WinogradOutput& args) {
  for (std::int64_t b = 0; b < args.image.block_count; ++b) {
    if (args.stat_sum) {
      reduce_block<true>(args, b);
    } else {
      reduce_block<false>(args, b);
    }
  }
}

void winograd_transform_gradient(const WinogradGradient& args) {
  for (std::int64_t b = 0; b < args.image.block_count; ++b) spread_block(args, b);
}

}  // namespace trifold::cpu::TRIFOLD_ISA
