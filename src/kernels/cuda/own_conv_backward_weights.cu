// The weight gradient as a matrix product (rows: a group's output channels, columns: input channel and tap, the sum
// over pixels) and, for thin groups, as direct sums of up to nine taps at a time.
#include <algorithm>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/fast_divide.cuh"
#include "kernels/cuda/own_conv_backward_weights.h"
#include "kernels/cuda/reduce.cuh"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 128;       // of the product
constexpr int kTile = 64;           // rows and columns
constexpr int kDepth = 16;          // pixels a stage holds
constexpr int kPitch = kDepth + 4;  // eight lines 16 bytes apart in banks: reads of 16 bytes have no conflicts
constexpr int kDirectThreads = 256;
constexpr int kDirectTaps = 9;
constexpr int kNowhere = 1 << 28;  // a tap row outside every image

struct WeightGradientArgs {
  int groups, in_channels, out_channels, in_height, in_width, kernel_height, kernel_width;
  int stride_height, stride_width, pad_height, pad_width, dilation_height, dilation_width;
  int pixels;  // of y, over all samples
  int pixels_per_slice;
  FastDivisor plane;  // pixels of y, of a sample
  FastDivisor width;  // of y
};

// Where a pixel of y lies in it, and the place of its window's corner in x.
struct WindowPixel {
  int sample, place, row, column;
  __device__ __forceinline__ WindowPixel(const WeightGradientArgs& args, int pixel) {
    std::uint32_t rest, right;
    sample = static_cast<int>(args.plane.divide(static_cast<std::uint32_t>(pixel), &rest));
    place = static_cast<int>(rest);
    row = static_cast<int>(args.width.divide(rest, &right)) * args.stride_height - args.pad_height;
    column = static_cast<int>(right) * args.stride_width - args.pad_width;
  }
};

// What a column of the product reads in x, relative to a window's corner.
struct Tap {
  int offset, row, column;
  __device__ __forceinline__ Tap(const WeightGradientArgs& args, int index) {
    const int taps = args.kernel_height * args.kernel_width;
    const int channel = index / taps, tap = index - channel * taps;
    row = tap / args.kernel_width * args.dilation_height;
    column = tap % args.kernel_width * args.dilation_width;
    offset = channel * args.in_height * args.in_width + row * args.in_width + column;
  }
};

// A line holds the stage's pixels of one row (dy) or column (x) of the product.
struct StageMemory {
  float dy[2][kTile][kPitch];
  float x[2][kTile][kPitch];
  int tap_offset[kTile];
  int tap_row[kTile];
  int tap_column[kTile];
};

// grid: tiles of columns, tiles of rows, slices of each group. A warp makes 32 x 32, its lanes 4 down by 8 across, each
// with 8 rows and 4 columns.
template <class T>
__global__ void __launch_bounds__(kThreads) weight_product(const T* __restrict__ x, const T* __restrict__ dy,
                                                           float* __restrict__ partial, const WeightGradientArgs args) {
  __shared__ __align__(16) StageMemory memory;
  const int columns = args.in_channels * args.kernel_height * args.kernel_width;
  const int group = static_cast<int>(blockIdx.z) % args.groups;
  const int slice = static_cast<int>(blockIdx.z) / args.groups;
  const int first_row = static_cast<int>(blockIdx.y) * kTile;
  const int first_column = static_cast<int>(blockIdx.x) * kTile;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;

  if (thread < kTile) {
    const Tap tap(args, min(first_column + thread, columns - 1));
    memory.tap_offset[thread] = tap.offset;
    memory.tap_row[thread] = first_column + thread < columns ? tap.row : kNowhere;
    memory.tap_column[thread] = tap.column;
  }
  __syncthreads();

  // A warp fills 16 lines of each factor, two at a time: half a warp reads 16 pixels of a line, the other half those of
  // the line four further on, which falls into the other 16 banks.
  const int fill_pixel = lane % kDepth;
  const int fill_line = warp * 16 + lane / kDepth * 4;
  const int in_plane = args.in_height * args.in_width;
  const int out_plane = static_cast<int>(args.plane.divisor());
  float dy_value[8], x_value[8];
  const auto line_of = [&](int i) { return fill_line + i % 4 + i / 4 * 8; };
  const auto fetch = [&](int first_pixel, int end_pixel) {
    const int pixel = first_pixel + fill_pixel;
    const bool inside = pixel < end_pixel;
    const WindowPixel at(args, min(pixel, args.pixels - 1));
    const std::int64_t image = static_cast<std::int64_t>(at.sample) * args.groups + group;
    const T* dy_at = dy + image * args.out_channels * out_plane + at.place;
    const T* x_at = x + image * args.in_channels * in_plane + at.row * args.in_width + at.column;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = first_row + line_of(i);
      dy_value[i] = 0;
      if (inside && row < args.out_channels) dy_value[i] = to_float(dy_at[row * out_plane]);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int line = line_of(i);
      const bool valid =
          inside && static_cast<unsigned>(at.row + memory.tap_row[line]) < static_cast<unsigned>(args.in_height) &&
          static_cast<unsigned>(at.column + memory.tap_column[line]) < static_cast<unsigned>(args.in_width);
      x_value[i] = 0;
      if (valid) x_value[i] = to_float(x_at[memory.tap_offset[line]]);
    }
  };
  const auto put = [&](int stage) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      memory.dy[stage][line_of(i)][fill_pixel] = dy_value[i];
      memory.x[stage][line_of(i)][fill_pixel] = x_value[i];
    }
  };

  const int warp_row = warp / 2 * 32 + lane / 8, warp_column = warp % 2 * 32 + lane % 8;
  float sum[8][4] = {};
  const int begin = slice * args.pixels_per_slice;
  const int end = min(args.pixels, begin + args.pixels_per_slice);
  fetch(begin, end);
  put(0);
  __syncthreads();
  for (int first_pixel = begin, stage = 0; first_pixel < end; first_pixel += kDepth, stage ^= 1) {
    const bool more = first_pixel + kDepth < end;
    if (more) fetch(first_pixel + kDepth, end);
#pragma unroll
    for (int k = 0; k < kDepth; k += 4) {
      float4 b[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) b[j] = *reinterpret_cast<const float4*>(&memory.x[stage][warp_column + 8 * j][k]);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float4 a = *reinterpret_cast<const float4*>(&memory.dy[stage][warp_row + 4 * i][k]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sum[i][j] = fmaf(a.x, b[j].x, sum[i][j]);
          sum[i][j] = fmaf(a.y, b[j].y, sum[i][j]);
          sum[i][j] = fmaf(a.z, b[j].z, sum[i][j]);
          sum[i][j] = fmaf(a.w, b[j].w, sum[i][j]);
        }
      }
    }
    if (more) put(stage ^ 1);
    __syncthreads();
  }

  float* to = partial + (static_cast<std::int64_t>(slice) * args.groups + group) * args.out_channels * columns;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = first_row + warp_row + 4 * i;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = first_column + warp_column + 8 * j;
      if (row < args.out_channels && column < columns)
        to[static_cast<std::int64_t>(row) * columns + column] = sum[i][j];
    }
  }
}

// grid: runs of kDirectTaps columns, output channels of all groups, slices.
template <class T>
__global__ void __launch_bounds__(kDirectThreads)
    weight_direct(const T* __restrict__ x, const T* __restrict__ dy, float* __restrict__ partial,
                  const WeightGradientArgs args) {
  const int columns = args.in_channels * args.kernel_height * args.kernel_width;
  const int first_column = static_cast<int>(blockIdx.x) * kDirectTaps;
  const int out_channel = static_cast<int>(blockIdx.y);
  const int out_channels = args.groups * args.out_channels;
  const int group = out_channel / args.out_channels;
  const int in_plane = args.in_height * args.in_width;
  const int out_plane = static_cast<int>(args.plane.divisor());
  float sum[kDirectTaps] = {};
  int offset[kDirectTaps], row[kDirectTaps], column[kDirectTaps];
#pragma unroll
  for (int i = 0; i < kDirectTaps; ++i) {
    const Tap tap(args, min(first_column + i, columns - 1));
    offset[i] = tap.offset;
    row[i] = first_column + i < columns ? tap.row : kNowhere;
    column[i] = tap.column;
  }
  const int begin = static_cast<int>(blockIdx.z) * args.pixels_per_slice;
  const int end = min(args.pixels, begin + args.pixels_per_slice);
  for (int pixel = begin + static_cast<int>(threadIdx.x); pixel < end; pixel += kDirectThreads) {
    const WindowPixel at(args, pixel);
    const float g =
        to_float(dy[(static_cast<std::int64_t>(at.sample) * out_channels + out_channel) * out_plane + at.place]);
    const T* x_at = x + (static_cast<std::int64_t>(at.sample) * args.groups + group) * args.in_channels * in_plane +
                    at.row * args.in_width + at.column;
#pragma unroll
    for (int i = 0; i < kDirectTaps; ++i) {
      if (static_cast<unsigned>(at.row + row[i]) < static_cast<unsigned>(args.in_height) &&
          static_cast<unsigned>(at.column + column[i]) < static_cast<unsigned>(args.in_width))
        sum[i] = fmaf(g, to_float(x_at[offset[i]]), sum[i]);
    }
  }
  float* to = partial + (static_cast<std::int64_t>(blockIdx.z) * out_channels + out_channel) * columns + first_column;
#pragma unroll
  for (int i = 0; i < kDirectTaps; ++i) {
    const float total = block_sum<kDirectThreads>(sum[i]);
    if (threadIdx.x == 0 && first_column + i < columns) to[i] = total;
  }
}

// dw = the slices added in order.
__global__ void __launch_bounds__(256)
    sum_weight_slices(const float* __restrict__ partial, float* __restrict__ dw, std::int64_t count, int slices) {
  const std::int64_t i = std::int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
  for (int slice = 0; slice < slices; ++slice) sum += partial[slice * count + i];
  dw[i] = sum;
}

int tiles(int extent, int tile) {
  return (extent + tile - 1) / tile;
}

WeightGradientArgs kernel_args(const WeightGradientPlan& plan) {
  const ConvShape& s = plan.shape;
  const auto pair = [](const Pair& value, std::size_t i) { return static_cast<int>(value[i]); };
  return {.groups = s.groups,
          .in_channels = s.in_channels,
          .out_channels = s.out_channels,
          .in_height = s.in_height,
          .in_width = s.in_width,
          .kernel_height = s.kernel_height,
          .kernel_width = s.kernel_width,
          .stride_height = pair(plan.args.stride, 0),
          .stride_width = pair(plan.args.stride, 1),
          .pad_height = pair(plan.args.pad, 0),
          .pad_width = pair(plan.args.pad, 1),
          .dilation_height = pair(plan.args.dilation, 0),
          .dilation_width = pair(plan.args.dilation, 1),
          .pixels = s.samples * s.out_height * s.out_width,
          .pixels_per_slice = plan.pixels_per_slice,
          .plane = FastDivisor(std::int64_t{s.out_height} * s.out_width),
          .width = FastDivisor(s.out_width)};
}

}  // namespace

WeightGradientPlan::WeightGradientPlan(const Conv2dArgs& conv_args, const ConvShape& conv, const CudaDevice& device)
    : args(conv_args), shape(conv) {
  const int columns = shape.in_channels * shape.taps();
  const std::int64_t blocks =
      direct() ? std::int64_t{shape.groups} * shape.out_channels * tiles(columns, kDirectTaps)
               : std::int64_t{shape.groups} * tiles(shape.out_channels, kTile) * tiles(columns, kTile);
  const int stage = direct() ? kDirectThreads : kDepth;
  const int stages = tiles(shape.samples * shape.out_height * shape.out_width, stage);
  // Enough blocks to fill the GPU, but no slice so short that adding the slices up costs more than it gains.
  constexpr int kBlocksPerMultiprocessor = 4, kLeastStages = 8;
  const std::int64_t wanted = std::int64_t{kBlocksPerMultiprocessor} * device.multiprocessors() / blocks;
  const std::int64_t most = std::min<std::int64_t>(stages / kLeastStages, 65535 / shape.groups);
  slices = static_cast<int>(std::max<std::int64_t>(1, std::min(wanted, most)));
  pixels_per_slice = std::max(1, tiles(stages, slices)) * stage;
  slices = std::max(1, tiles(shape.samples * shape.out_height * shape.out_width, pixels_per_slice));
}

void launch_weight_gradient(const WeightGradientPlan& plan, const WeightGradientTensors& tensors, cudaStream_t stream) {
  const ConvShape& shape = plan.shape;
  TRIFOLD_CHECK(plan.slices == 1 || tensors.scratch != nullptr, "a weight gradient in {} slices without scratch",
                plan.slices);
  float* partial = plan.slices == 1 ? tensors.dw : reinterpret_cast<float*>(tensors.scratch);
  const int columns = shape.in_channels * shape.taps();
  const WeightGradientArgs args = kernel_args(plan);
  with_element(tensors.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    const auto* x = static_cast<const T*>(tensors.x);
    const auto* dy = static_cast<const T*>(tensors.dy);
    if (plan.direct()) {
      const dim3 grid(static_cast<unsigned>(tiles(columns, kDirectTaps)),
                      static_cast<unsigned>(shape.groups * shape.out_channels), static_cast<unsigned>(plan.slices));
      weight_direct<T><<<grid, kDirectThreads, 0, stream>>>(x, dy, partial, args);
    } else {
      const dim3 grid(static_cast<unsigned>(tiles(columns, kTile)),
                      static_cast<unsigned>(tiles(shape.out_channels, kTile)),
                      static_cast<unsigned>(plan.slices * shape.groups));
      weight_product<T><<<grid, kThreads, 0, stream>>>(x, dy, partial, args);
    }
    check_launch("weight gradient");
  });
  if (plan.slices == 1) return;
  sum_weight_slices<<<static_cast<unsigned>((shape.weights() + 255) / 256), 256, 0, stream>>>(
      partial, tensors.dw, shape.weights(), plan.slices);
  check_launch("sum_weight_slices");
}

}  // namespace trifold::cuda
