// The gathering convolution as an implicit matrix product: rows are a group's output channels, columns the pixels of a
// class, and the sum runs over (channel, tap). A block makes a tile of 64 or 32 rows by 128 pixels, eight steps of the
// sum at a time; the next eight are on their way from memory while these are multiplied.
#include <algorithm>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/own_conv_gather.cuh"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kTilePixels = 128;
constexpr int kDepth = 8;        // steps of the sum a stage holds
constexpr int kLayRows = 32;     // output channels that one block lays
constexpr int kLayColumns = 64;  // at most

struct LayArgs {
  GatherArgs gather;
  int kernel_width;
  int columns;     // source elements that lie together, for each output channel
  int chunk;       // columns a block takes
  int rows_apart;  // source elements from one output channel to the next
  std::int64_t slices_apart;
};

// Weights to float [group][class][channel, tap][output channel], padded with zeros. A slice is a matrix of the source
// with a row for each output channel: forward the whole group (columns are channel and tap), backward one source
// channel of it (columns are taps). grid: chunks of columns, chunks of rows, slices.
template <class T>
__global__ void __launch_bounds__(256)
    lay_weights(const T* __restrict__ weights, float* __restrict__ laid, const LayArgs args) {
  __shared__ float tile[kLayRows * (kLayColumns + 1)];
  const GatherArgs& gather = args.gather;
  const int first_row = static_cast<int>(blockIdx.y) * kLayRows;
  const int first_column = static_cast<int>(blockIdx.x) * args.chunk;
  const int columns = min(args.chunk, args.columns - first_column);
  const int pitch = columns | 1;  // odd: the lanes that read down a column hit different banks
  const T* slice = weights + static_cast<std::int64_t>(blockIdx.z) * args.slices_apart;
  for (int i = static_cast<int>(threadIdx.x); i < kLayRows * columns; i += static_cast<int>(blockDim.x)) {
    const int row = i / columns, column = i - row * columns;
    float value = 0;
    if (first_row + row < gather.out_channels)
      value = to_float(slice[static_cast<std::int64_t>(first_row + row) * args.rows_apart + first_column + column]);
    tile[row * pitch + column] = value;
  }
  __syncthreads();

  const int taps = gather.rows.kernel_extent * gather.columns.kernel_extent;
  const int group =
      gather.backward ? static_cast<int>(blockIdx.z) / gather.source_channels : static_cast<int>(blockIdx.z);
  const int row = static_cast<int>(threadIdx.x) % kLayRows;
  if (first_row + row >= gather.padded_channels) return;
  for (int i = static_cast<int>(threadIdx.x) / kLayRows; i < columns; i += static_cast<int>(blockDim.x) / kLayRows) {
    const int column = first_column + i;
    const int channel = gather.backward ? static_cast<int>(blockIdx.z) % gather.source_channels : column / taps;
    const int tap = gather.backward ? column : column - channel * taps;
    const int tap_row = tap / args.kernel_width, tap_column = tap - tap_row * args.kernel_width;
    // The class whose taps this one belongs to: the one whose first tap differs by whole strides.
    int row_class = 0, column_class = 0;
    while (!(gather.rows.by_class[row_class].taps > 0 &&
             gather.rows.by_class[row_class].first_tap == tap_row % gather.rows.tap_stride))
      ++row_class;
    while (!(gather.columns.by_class[column_class].taps > 0 &&
             gather.columns.by_class[column_class].first_tap == tap_column % gather.columns.tap_stride))
      ++column_class;
    const AxisClass r = gather.rows.by_class[row_class];
    const AxisClass c = gather.columns.by_class[column_class];
    const int earlier_taps = r.earlier_taps * gather.columns.kernel_extent + r.taps * c.earlier_taps;
    const int step = earlier_taps * gather.source_channels + channel * r.taps * c.taps +
                     tap_row / gather.rows.tap_stride * c.taps + tap_column / gather.columns.tap_stride;
    const std::int64_t line = static_cast<std::int64_t>(group) * gather.source_channels * taps + step;
    laid[line * gather.padded_channels + first_row + row] = tile[row * pitch + i];
  }
}

template <class T>
void launch_lay_weights(const GatherPlan& plan, const GatherTensors& tensors, cudaStream_t stream) {
  const int taps = plan.shape.taps();
  LayArgs args{.gather = gather_args(plan, tensors),
               .kernel_width = plan.shape.kernel_width,
               .columns = plan.backward ? taps : plan.source_channels * taps,
               .chunk = 0,
               .rows_apart = plan.backward ? taps : plan.source_channels * taps,
               .slices_apart = std::int64_t{plan.out_channels} * taps * (plan.backward ? 1 : plan.source_channels)};
  args.chunk = std::min(args.columns, args.columns <= kLayColumns ? kLayColumns : kLayColumns / 2);
  const dim3 grid(static_cast<unsigned>((args.columns + args.chunk - 1) / args.chunk),
                  static_cast<unsigned>((plan.padded_channels() + kLayRows - 1) / kLayRows),
                  static_cast<unsigned>(plan.shape.groups * (plan.backward ? plan.source_channels : 1)));
  lay_weights<T><<<grid, 256, 0, stream>>>(static_cast<const T*>(tensors.weights), tensors.laid_weights, args);
  check_launch("lay_weights");
}

// A stage of both factors in shared memory, twice: one is multiplied while the other is filled. The results pass
// through the same memory on their way out, a few rows of a warp at a time, so that a warp stores whole runs of pixels.
template <int kTileRows>
union ProductMemory {
  static constexpr int kWarpPixels = kTileRows == 64 ? 64 : 32;
  static constexpr int kPitch = kWarpPixels + 1;  // odd: the four rows of a store fall into different banks
  struct {
    float weights[2][kDepth][kTileRows];
    float pixels[2][kDepth][kTilePixels];
  } stage;
  float rows[kThreads / 32][4][kPitch];
};

// grid: tiles of pixels, tiles of rows, classes of each group. Threads of a warp: 4 down by 8 across, each with 8 rows
// in two runs of 4 and 4 or 8 pixels in runs of 4, so that all reads of shared memory are 16 bytes without conflicts.
template <class T, int kTileRows>
__global__ void __launch_bounds__(kThreads) gather_product(const T* __restrict__ source, const float* __restrict__ laid,
                                                           T* __restrict__ out, const GatherArgs args) {
  using Memory = ProductMemory<kTileRows>;
  constexpr int kWarpsAcross = kTilePixels / Memory::kWarpPixels;
  constexpr int kRuns = Memory::kWarpPixels / 32;  // of 4 pixels, a thread
  constexpr int kWeightLoads = kTileRows * kDepth / kThreads;
  __shared__ __align__(16) Memory memory;

  const GatherClass c(args);
  const int first_pixel = static_cast<int>(blockIdx.x) * kTilePixels;
  if (first_pixel >= c.pixels) return;
  const int first_row = static_cast<int>(blockIdx.y) * kTileRows;
  const int thread = static_cast<int>(threadIdx.x);
  const int taps = args.rows.kernel_extent * args.columns.kernel_extent;
  const int plane = args.rows.source_extent * args.columns.source_extent;
  const int steps = args.source_channels * c.row.taps * c.column.taps;

  // Every thread fetches one pixel's taps ...
  const int pixel = first_pixel + thread;
  const GatherPixel at(args, c, min(pixel, c.pixels - 1));
  const bool inside = pixel < c.pixels;
  const T* pixel_source =
      source + (static_cast<std::int64_t>(at.sample) * args.groups + c.group) * args.source_channels * plane +
      at.source_row * args.columns.source_extent + at.source_column;
  // ... and every (kThreads / kTileRows)th step's weight of one row.
  const int earlier_taps = c.row.earlier_taps * args.columns.kernel_extent + c.row.taps * c.column.earlier_taps;
  const std::int64_t first_line = (static_cast<std::int64_t>(c.group) * taps + earlier_taps) * args.source_channels;
  const float* row_weights = laid + first_line * args.padded_channels + first_row + thread % kTileRows;

  float weight[kWeightLoads];
  float value[kDepth];
  TapWalk walk;
  const auto fetch = [&](int first_step) {
#pragma unroll
    for (int i = 0; i < kWeightLoads; ++i) {
      const int step = first_step + thread / kTileRows + i * (kThreads / kTileRows);
      weight[i] = step < steps ? row_weights[static_cast<std::int64_t>(step) * args.padded_channels] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const bool valid =
          inside && first_step + i < steps &&
          static_cast<unsigned>(at.source_row + walk.row) < static_cast<unsigned>(args.rows.source_extent) &&
          static_cast<unsigned>(at.source_column + walk.column) < static_cast<unsigned>(args.columns.source_extent);
      value[i] = 0;
      if (valid) value[i] = to_float(pixel_source[walk.plane + walk.row * args.columns.source_extent + walk.column]);
      walk.advance(args, c, plane);
    }
  };
  const auto put = [&](int stage) {
#pragma unroll
    for (int i = 0; i < kWeightLoads; ++i)
      memory.stage.weights[stage][thread / kTileRows + i * (kThreads / kTileRows)][thread % kTileRows] = weight[i];
#pragma unroll
    for (int i = 0; i < kDepth; ++i) memory.stage.pixels[stage][i][thread] = value[i];
  };

  const int lane = thread % 32, warp = thread / 32;
  const int warp_row = warp / kWarpsAcross * 32;
  const int warp_pixel = warp % kWarpsAcross * Memory::kWarpPixels;
  const int lane_row = lane / 8 * 4, lane_pixel = lane % 8 * 4;
  float sum[8][4 * kRuns] = {};
  if (steps > 0) {
    fetch(0);
    put(0);
    __syncthreads();
  }
  for (int first_step = 0, stage = 0; first_step < steps; first_step += kDepth, stage ^= 1) {
    const bool more = first_step + kDepth < steps;
    if (more) fetch(first_step + kDepth);
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float a[8], b[4 * kRuns];
#pragma unroll
      for (int run = 0; run < 2; ++run)
        *reinterpret_cast<float4*>(a + 4 * run) =
            *reinterpret_cast<const float4*>(&memory.stage.weights[stage][k][warp_row + 16 * run + lane_row]);
#pragma unroll
      for (int run = 0; run < kRuns; ++run)
        *reinterpret_cast<float4*>(b + 4 * run) =
            *reinterpret_cast<const float4*>(&memory.stage.pixels[stage][k][warp_pixel + 32 * run + lane_pixel]);
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 4 * kRuns; ++j) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
    }
    if (more) put(stage ^ 1);
    __syncthreads();
  }

  // Where this lane's pixels go: run r of the warp's pixels holds the lane's (32 r + lane)th.
  const int out_plane = args.rows.out_extent * args.columns.out_extent;
  T* place[kRuns];
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    const int out_pixel = first_pixel + warp_pixel + 32 * run + lane;
    const GatherPixel to(args, c, min(out_pixel, c.pixels - 1));
    place[run] =
        out_pixel < c.pixels
            ? out + (static_cast<std::int64_t>(to.sample) * args.groups + c.group) * args.out_channels * out_plane +
                  to.out_place
            : nullptr;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int j = 0; j < 4 * kRuns; ++j) memory.rows[warp][lane_row / 4][j / 4 * 32 + lane_pixel + j % 4] = sum[i][j];
    __syncwarp();
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = first_row + warp_row + i / 4 * 16 + 4 * r + i % 4;
      if (row >= args.out_channels) continue;
      const float bias = args.bias != nullptr ? args.bias[c.group * args.out_channels + row] : 0.0f;
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        float y = memory.rows[warp][r][32 * run + lane] + bias;
        if (args.relu) y = fmaxf(y, 0.0f);
        if (place[run] != nullptr) place[run][static_cast<std::int64_t>(row) * out_plane] = from_float<T>(y);
      }
    }
    __syncwarp();
  }
}

}  // namespace

void launch_gather_product(const GatherPlan& plan, const GatherTensors& tensors, cudaStream_t stream) {
  const int pixels = plan.shape.samples * plan.most_class_pixels();
  if (pixels == 0) return;
  const dim3 grid(static_cast<unsigned>((pixels + kTilePixels - 1) / kTilePixels),
                  static_cast<unsigned>(plan.padded_channels() / plan.tile_rows), plan.classes_of_all_groups());
  const GatherArgs args = gather_args(plan, tensors);
  with_element(tensors.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    launch_lay_weights<T>(plan, tensors, stream);
    const auto* source = static_cast<const T*>(tensors.source);
    auto* out = static_cast<T*>(tensors.out);
    if (plan.tile_rows == 64)
      gather_product<T, 64><<<grid, kThreads, 0, stream>>>(source, tensors.laid_weights, out, args);
    else
      gather_product<T, 32><<<grid, kThreads, 0, stream>>>(source, tensors.laid_weights, out, args);
    check_launch("gather_product");
  });
}

}  // namespace trifold::cuda
