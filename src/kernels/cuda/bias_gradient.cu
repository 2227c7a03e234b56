// Sums of dy by channel. Large planes of NCHW are summed a block a plane; everything else is a matrix whose columns are
// summed: NHWC [samples * pixels, C], and small planes as [samples, C * pixels]. A narrow matrix is folded: several
// rows count as one wide one, so that a warp always reads whole runs. A second pass adds slices, folds and pixels
// together.
#include <algorithm>
#include <numeric>

#include "kernels/cuda/bias_gradient.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLanesAcross = 32;             // threads side by side over columns, each with 16 bytes
constexpr std::int64_t kWidest = 8;          // elements of 16 bytes, for the type that has the most
constexpr std::int64_t kWantedBlocks = 512;  // fills any GPU, and the order of sums does not depend on which
constexpr std::int64_t kSmallPlane = 64;     // pixels; runs so short would share most of their sectors with neighbours
constexpr std::int64_t kLeastRows = 64;      // of a slice: for fewer, what the second pass moves would count
constexpr std::int64_t kFewSamples = 32;     // whose small planes are not worth a second pass

// A thread's 16 bytes at `first` of a run of `count` elements that begins at `run`: adds those that belong to it. Packs
// may begin before the run; `readable` is how far from the run's begin the tensor goes.
template <class T>
__device__ __forceinline__ float sum_of_pack(const T* run, int first, int count, std::int64_t readable) {
  float sum = 0;
  if (first + Pack<T>::kCount <= readable) {
    const Pack<T> pack = load_pack(run + first);
#pragma unroll
    for (int i = 0; i < Pack<T>::kCount; ++i)
      sum += static_cast<unsigned>(first + i) < static_cast<unsigned>(count) ? to_float(pack.values[i]) : 0.0f;
  } else {
#pragma unroll 1
    for (int i = max(first, 0); i < count; ++i) sum += to_float(run[i]);
  }
  return sum;
}

struct PlaneArgs {
  std::int64_t samples, channels, pixels;
  std::int64_t samples_per_slice;
  int lanes_per_run;  // threads that share one plane: a power of 2
};

// grid: channels, slices of samples. Planes start anywhere: threads take whole 16 bytes and leave out what is not
// theirs.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_planes(const T* __restrict__ dy, float* __restrict__ partial, const PlaneArgs args) {
  constexpr int kPack = Pack<T>::kCount;
  const int run_lane = static_cast<int>(threadIdx.x) & (args.lanes_per_run - 1);
  const int run = static_cast<int>(threadIdx.x) / args.lanes_per_run;
  const std::int64_t first_sample = blockIdx.y * args.samples_per_slice;
  const std::int64_t end_sample = min(args.samples, first_sample + args.samples_per_slice);
  const std::int64_t elements = args.samples * args.channels * args.pixels;
  const auto pixels = static_cast<int>(args.pixels);
  float sum = 0;
  for (std::int64_t n = first_sample + run; n < end_sample; n += kThreads / args.lanes_per_run) {
    const std::int64_t begin = (n * args.channels + blockIdx.x) * args.pixels;
    // From the sector's start, so that no warp's load ends inside a sector that the next one touches again.
    const int lead = static_cast<int>(begin & (2 * kPack - 1));
#pragma unroll 2
    for (int i = run_lane * kPack - lead; i < pixels; i += args.lanes_per_run * kPack)
      sum += sum_of_pack(dy + begin, i, pixels, elements - begin);
  }
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) partial[blockIdx.y * args.channels + blockIdx.x] = sum;
}

struct RowArgs {
  std::int64_t elements, rows, columns;  // folded; the last row may be short
  std::int64_t rows_per_slice;
};

// grid: runs of kLanesAcross packs of columns, slices of rows. Threads: kLanesAcross across, the rest down the rows.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_rows(const T* __restrict__ dy, float* __restrict__ partial, const RowArgs args) {
  constexpr int kPack = Pack<T>::kCount;
  constexpr int kDown = kThreads / kLanesAcross;
  // Written along `across`, read along columns (across, then element): this pitch keeps both free of bank conflicts.
  constexpr int kPitch = kLanesAcross + kLanesAcross / kPack;
  __shared__ float sums[kDown][kPack][kPitch];
  const int across = static_cast<int>(threadIdx.x) % kLanesAcross;
  const int down = static_cast<int>(threadIdx.x) / kLanesAcross;
  const std::int64_t column = (std::int64_t{blockIdx.x} * kLanesAcross + across) * kPack;
  const std::int64_t first_row = blockIdx.y * args.rows_per_slice;
  const std::int64_t end_row = min(args.rows, first_row + args.rows_per_slice);
  float sum[kPack] = {};
  if (column < args.columns) {
#pragma unroll 2
    for (std::int64_t row = first_row + down; row < end_row; row += kDown) {
      const std::int64_t at = row * args.columns + column;
      if (at + kPack <= args.elements) {
        const Pack<T> pack = load_pack(dy + at);
#pragma unroll
        for (int i = 0; i < kPack; ++i) sum[i] += to_float(pack.values[i]);
      } else {
#pragma unroll
        for (int i = 0; i < kPack; ++i)
          if (at + i < args.elements) sum[i] += to_float(dy[at + i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) sums[down][i][across] = sum[i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kLanesAcross * kPack; i += kThreads) {
    const std::int64_t to = std::int64_t{blockIdx.x} * kLanesAcross * kPack + i;
    if (to >= args.columns) return;
    float total = 0;
#pragma unroll
    for (int k = 0; k < kDown; ++k) total += sums[k][i % kPack][i / kPack];
    partial[blockIdx.y * args.columns + to] = total;
  }
}

// total[c] = sum of partial [parts, C, pixels] over parts and pixels: a thread a channel, or a warp where there are
// pixels.
template <bool kPixels>
__global__ void __launch_bounds__(kThreads) sum_parts(const float* __restrict__ partial, float* __restrict__ total,
                                                      std::int64_t channels, std::int64_t parts, std::int64_t pixels) {
  constexpr int kLanes = kPixels ? 32 : 1;
  const std::int64_t channel = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kLanes;
  if (channel >= channels) return;  // a whole warp, where warps work together
  float sum = 0;
  if constexpr (kPixels) {
    for (std::int64_t part = 0; part < parts; ++part)
      for (std::int64_t p = threadIdx.x % 32; p < pixels; p += 32)
        sum += partial[(part * channels + channel) * pixels + p];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) total[channel] = sum;
  } else {
    for (std::int64_t part = 0; part < parts; ++part) sum += partial[part * channels + channel];
    total[channel] = sum;
  }
}

// How dy is cut, from its view alone.
struct Cut {
  bool planes = false;       // by planes; else by rows
  std::int64_t rows = 0;     // samples (planes), or folded rows
  std::int64_t columns = 0;  // of folded rows
  std::int64_t fold = 1;
  std::int64_t pixels = 1;  // that are left to the second pass
  std::int64_t slices = 1;
  std::int64_t rows_per_slice = 0;

  bool second_pass() const { return slices * fold * pixels > 1; }
};

Cut cut_of(const ImageView& view) {
  TRIFOLD_CHECK(view.block == 1 || view.block == view.channels, "a bias gradient of images in blocks of {} channels",
                view.block);
  TRIFOLD_CHECK(view.pixels < (std::int64_t{1} << 31), "a bias gradient of planes of {} pixels", view.pixels);
  Cut cut;
  const bool planar = view.block == 1 && view.pixels > 1;
  cut.planes = planar && (view.pixels > kSmallPlane || view.samples < kFewSamples);
  std::int64_t blocks = view.channels, least_rows = 1;
  if (cut.planes) {
    cut.rows = view.samples;
    least_rows = std::max<std::int64_t>(1, 32 * kThreads / view.pixels);
  } else {
    const std::int64_t rows = planar ? view.samples : view.samples * view.pixels;
    cut.pixels = planar ? view.pixels : 1;
    const std::int64_t width = view.channels * cut.pixels;
    cut.fold = kWidest / std::gcd(width, kWidest);
    while (width * cut.fold < kLanesAcross * kWidest && cut.fold < rows) cut.fold *= 2;
    cut.rows = (rows + cut.fold - 1) / cut.fold;
    cut.columns = width * cut.fold;
    least_rows = kLeastRows;
    blocks = (cut.columns + kLanesAcross * kWidest - 1) / (kLanesAcross * kWidest);
  }
  const std::int64_t slices =
      std::clamp<std::int64_t>(std::min(kWantedBlocks / blocks, cut.rows / least_rows), 1, 65535);
  cut.rows_per_slice = std::max<std::int64_t>(1, (cut.rows + slices - 1) / slices);
  cut.slices = std::max<std::int64_t>(1, (cut.rows + cut.rows_per_slice - 1) / cut.rows_per_slice);
  return cut;
}

unsigned blocks_over(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

template <class T>
void launch_first_pass(const BiasGradientArgs& args, const Cut& cut, float* partial) {
  const auto* dy = static_cast<const T*>(args.dy);
  const cudaStream_t stream = args.device->compute();
  const auto slices = static_cast<unsigned>(cut.slices);
  if (cut.planes) {
    PlaneArgs planes{args.view.samples, args.view.channels, args.view.pixels, cut.rows_per_slice, 4};
    while (planes.lanes_per_run < kThreads && planes.lanes_per_run * Pack<T>::kCount < args.view.pixels)
      planes.lanes_per_run *= 2;
    sum_planes<T>
        <<<dim3(static_cast<unsigned>(args.view.channels), slices), kThreads, 0, stream>>>(dy, partial, planes);
  } else {
    const RowArgs rows{args.view.elements(), cut.rows, cut.columns, cut.rows_per_slice};
    const dim3 grid(blocks_over(cut.columns, kLanesAcross * Pack<T>::kCount), slices);
    sum_rows<T><<<grid, kThreads, 0, stream>>>(dy, partial, rows);
  }
  check_launch("bias gradient");
}

}  // namespace

std::size_t bias_gradient_scratch(const ImageView& view) {
  const Cut cut = cut_of(view);
  if (!cut.second_pass()) return 0;
  return static_cast<std::size_t>(cut.slices * (cut.planes ? view.channels : cut.columns)) * sizeof(float);
}

void launch_bias_gradient(const BiasGradientArgs& args) {
  if (args.view.channels == 0) return;
  const Cut cut = cut_of(args.view);
  TRIFOLD_CHECK(!cut.second_pass() || args.scratch != nullptr, "a bias gradient in {} slices without scratch",
                cut.slices);
  float* partial = cut.second_pass() ? reinterpret_cast<float*>(args.scratch) : args.dbias;
  with_element(args.dtype,
               [&](auto element) { launch_first_pass<typename decltype(element)::type>(args, cut, partial); });
  if (!cut.second_pass()) return;
  const std::int64_t channels = args.view.channels;
  if (cut.pixels > 1)
    sum_parts<true><<<blocks_over(channels * 32, kThreads), kThreads, 0, args.device->compute()>>>(
        partial, args.dbias, channels, cut.slices * cut.fold, cut.pixels);
  else
    sum_parts<false><<<blocks_over(channels, kThreads), kThreads, 0, args.device->compute()>>>(
        partial, args.dbias, channels, cut.slices * cut.fold, 1);
  check_launch("sum_parts");
}

}  // namespace trifold::cuda
