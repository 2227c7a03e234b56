// The bias on its way into y, where the library that made y could not add it. A thread keeps the biases it needs in
// registers: over and over the same ones (NHWC and small planes), or those of one or two planes (NCHW).
#include <numeric>

#include "kernels/cuda/bias_gradient.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/fast_divide.cuh"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kPacksPerThread = 8;  // at least, so that loading the biases does not show

template <class T>
__device__ __forceinline__ T with_bias(T y, float bias, bool relu) {
  const float x = to_float(y) + bias;
  return from_float<T>(relu ? fmaxf(x, 0.0f) : x);
}

// y(i) = with_bias(y(i), bias_of(k)) for the pack at `first`, element by element where the tensor ends inside it.
template <class T, class BiasOf>
__device__ __forceinline__ void add_to_pack(T* y, std::int64_t first, std::int64_t elements, bool relu,
                                            const BiasOf& bias_of) {
  if (first + Pack<T>::kCount <= elements) {
    Pack<T> pack = load_pack(y + first);
#pragma unroll
    for (int k = 0; k < Pack<T>::kCount; ++k) pack.values[k] = with_bias(pack.values[k], bias_of(k), relu);
    store_pack(y + first, pack);
  } else {
#pragma unroll
    for (int k = 0; k < Pack<T>::kCount; ++k)
      if (first + k < elements) y[first + k] = with_bias(y[first + k], bias_of(k), relu);
  }
}

struct AddArgs {
  std::int64_t elements;
  std::int64_t threads;  // that take part: a multiple of the packs after which channels repeat
  FastDivisor run;       // elements that share a channel: the pixels, or 1 for NHWC
  FastDivisor channels;
  bool whole_packs;  // a pack's channels lie side by side, and 16 bytes of biases can be loaded at once
  bool relu;
};

// Every pack of a thread has the same channels.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_repeating_bias(T* __restrict__ y, const float* __restrict__ bias, const AddArgs args) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (thread >= args.threads) return;
  float mine[kPack] = {};
  if (args.whole_packs) {
    std::uint32_t channel;
    args.channels.divide(static_cast<std::uint32_t>(thread * kPack), &channel);
#pragma unroll
    for (int k = 0; k < kPack; k += 4) {
      const Pack<float> four = load_pack(bias + channel + k);
#pragma unroll
      for (int i = 0; i < 4; ++i) mine[k + i] = four.values[i];
    }
  } else if (bias != nullptr) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      std::uint32_t channel;
      args.channels.divide(args.run.divide(static_cast<std::uint32_t>(thread * kPack + k)), &channel);
      mine[k] = bias[channel];
    }
  }
  for (std::int64_t first = thread * kPack; first < args.elements; first += args.threads * kPack)
    add_to_pack(y, first, args.elements, args.relu, [&](int k) { return mine[k]; });
}

// Planes of at least a pack: a pack lies in one plane or two.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_planar_bias(T* __restrict__ y, const float* __restrict__ bias, const AddArgs args) {
  constexpr int kPack = Pack<T>::kCount;
  const std::uint32_t period = args.run.divisor() * args.channels.divisor();  // elements of a sample
  const std::int64_t stride = args.threads * kPack;
  std::int64_t first = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack;
  const auto places_per_stride = static_cast<std::uint32_t>(stride % period);
  auto place = static_cast<std::uint32_t>(first % period);  // of the pack within its sample
  for (; first < args.elements; first += stride) {
    std::uint32_t pixel;
    const std::uint32_t channel = args.run.divide(place, &pixel);
    const std::uint32_t in_plane = args.run.divisor() - pixel;  // elements until the next plane
    const float here = bias[channel];
    const float next = in_plane < kPack ? bias[channel + 1 == args.channels.divisor() ? 0 : channel + 1] : 0.0f;
    add_to_pack(y, first, args.elements, args.relu,
                [&](int k) { return static_cast<std::uint32_t>(k) < in_plane ? here : next; });
    place += places_per_stride;
    if (place >= period) place -= period;
  }
}

template <class T>
void launch(const AddBiasArgs& args) {
  constexpr std::int64_t kPack = Pack<T>::kCount;
  const ImageView& view = args.view;
  const bool planar = view.block == 1 && view.pixels >= kPack && args.bias != nullptr;
  const std::int64_t run = view.block == 1 ? view.pixels : 1;
  const std::int64_t packs = (view.elements() + kPack - 1) / kPack;
  const std::int64_t threads = std::int64_t{kThreads} * blocks_for(packs / kPacksPerThread, kThreads, *args.device);
  AddArgs kernel_args{
      .elements = view.elements(),
      .threads = threads,
      .run = FastDivisor(run),
      .channels = FastDivisor(view.channels),
      .whole_packs = args.bias != nullptr && run == 1 && view.channels % kPack == 0 && aligned_for_packs(args.bias),
      .relu = args.relu};
  const cudaStream_t stream = args.device->compute();
  auto* y = static_cast<T*>(args.y);
  if (planar) {
    add_planar_bias<T><<<static_cast<unsigned>(threads / kThreads), kThreads, 0, stream>>>(y, args.bias, kernel_args);
  } else {
    const std::int64_t sample = args.bias != nullptr ? view.channels * run : 1;
    const std::int64_t period = sample / std::gcd(sample, kPack);
    kernel_args.threads = std::max<std::int64_t>(1, threads / period) * period;
    const auto blocks = static_cast<unsigned>((kernel_args.threads + kThreads - 1) / kThreads);
    add_repeating_bias<T><<<blocks, kThreads, 0, stream>>>(y, args.bias, kernel_args);
  }
  check_launch("add bias");
}

}  // namespace

void launch_add_bias_relu(const AddBiasArgs& args) {
  const ImageView& view = args.view;
  if (view.elements() == 0 || (args.bias == nullptr && !args.relu)) return;
  TRIFOLD_CHECK(view.block == 1 || view.block == view.channels, "a bias for images in blocks of {} channels",
                view.block);
  TRIFOLD_CHECK(view.channels * view.pixels < (std::int64_t{1} << 31), "a bias for samples of {} elements",
                view.channels * view.pixels);
  with_element(args.dtype, [&](auto element) { launch<typename decltype(element)::type>(args); });
}

}  // namespace trifold::cuda
