#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/cuda/augment.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/fast_divide.cuh"
#include "kernels/cuda/philox.cuh"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPixelsPerThread = 4;
constexpr int kMostAugmentations = 8;
constexpr int kSharedChannels = 64;

// An image is raw * scale + shift.
struct ChannelNumbers {
  float scale, shift;
  float blank;  // what cutout leaves, as raw pixel
};

// Two roundings, as on the host: a fused multiply-add would differ in the last bit.
__device__ __forceinline__ float normalised(float raw, const ChannelNumbers& channel) {
  return __fadd_rn(__fmul_rn(raw, channel.scale), channel.shift);
}

struct AugmentArgs {
  const DeviceStep* step;
  const ChannelNumbers* channels;
  std::int64_t samples, samples_per_epoch;
  int channel_count;
  int elements, height, width;  // elements of a sample
  FastDivisor plane, row;
  int augmentation_count;
  DeviceAugmentation augmentations[kMostAugmentations];
};

// The channels' numbers in shared memory, if there are few, as there are for images. All threads must come.
__device__ __forceinline__ const ChannelNumbers* near_channels(const AugmentArgs& args, ChannelNumbers* shared) {
  if (args.channel_count > kSharedChannels) return args.channels;
  if (static_cast<int>(threadIdx.x) < args.channel_count) shared[threadIdx.x] = args.channels[threadIdx.x];
  __syncthreads();
  return shared;
}

// What an augmentation drew for one sample.
struct Drawn {
  DeviceAugmentation::Kind kind;
  int down, right;  // crop: the window's place; cutout: the square's corner; flip: `down` tells whether
  int side;         // of the square
};

// RandomSequence of runtime/core/philox.h: a few numbers, one after the other.
class DeviceSequence {
 public:
  __device__ DeviceSequence(std::uint64_t seed, std::uint32_t epoch, std::uint64_t position)
      : seed_(seed), epoch_(epoch), position_(position) {}
  __device__ std::uint32_t bits() {
    if (used_ == 4) {
      block_ = random_block_on_device(seed_, Purpose::augment, epoch_, position_, next_block_++);
      used_ = 0;
    }
    const std::uint32_t number = used_ == 0 ? block_.x : used_ == 1 ? block_.y : used_ == 2 ? block_.z : block_.w;
    ++used_;
    return number;
  }
  __device__ float uniform() { return static_cast<float>(bits() >> 8) * 0x1.0p-24f; }
  __device__ int below(int count) { return static_cast<int>(__umulhi(bits(), static_cast<std::uint32_t>(count))); }

 private:
  std::uint64_t seed_;
  std::uint32_t epoch_;
  std::uint64_t position_;
  uint4 block_ = {};
  std::uint32_t next_block_ = 0;
  int used_ = 4;
};

__device__ void draw(const AugmentArgs& args, std::int64_t sample, Drawn* drawn) {
  const std::int64_t place = args.step->first_sample + sample;
  const std::int64_t epoch = place / args.samples_per_epoch;
  DeviceSequence random(args.step->seed, static_cast<std::uint32_t>(epoch),
                        static_cast<std::uint64_t>(place - epoch * args.samples_per_epoch));
  for (int i = 0; i < args.augmentation_count; ++i) {
    const DeviceAugmentation& a = args.augmentations[i];
    Drawn& to = drawn[i];
    to = {.kind = a.kind, .down = 0, .right = 0, .side = a.size_px};
    switch (a.kind) {
      case DeviceAugmentation::Kind::crop:
        to.down = random.below(2 * a.size_px + 1) - a.size_px;
        to.right = random.below(2 * a.size_px + 1) - a.size_px;
        break;
      case DeviceAugmentation::Kind::flip:
        to.down = random.uniform() < a.probability ? 1 : 0;
        break;
      case DeviceAugmentation::Kind::cutout:
        to.down = random.below(args.height) - a.size_px / 2;
        to.right = random.below(args.width) - a.size_px / 2;
        break;
    }
  }
}

// The raw pixel that ends at (row, column): the changes are walked back, last first, until one of them made it up.
template <class Pixel>
__device__ __forceinline__ float changed_pixel(const AugmentArgs& args, const Drawn* drawn, const Pixel* plane, int row,
                                               int column, float blank) {
  for (int i = args.augmentation_count - 1; i >= 0; --i) {
    const Drawn& d = drawn[i];
    if (d.kind == DeviceAugmentation::Kind::flip) {
      if (d.down != 0) column = args.width - 1 - column;
    } else if (d.kind == DeviceAugmentation::Kind::crop) {
      row += d.down;
      column += d.right;
      if (static_cast<unsigned>(row) >= static_cast<unsigned>(args.height) ||
          static_cast<unsigned>(column) >= static_cast<unsigned>(args.width))
        return 0;
    } else if (row >= d.down && row < d.down + d.side && column >= d.right && column < d.right + d.side) {
      return blank;
    }
  }
  return static_cast<float>(plane[row * args.width + column]);
}

// grid: runs of a sample's elements, samples. Neighbouring threads write neighbouring elements, and read neighbours.
template <class Pixel>
__global__ void __launch_bounds__(kThreads)
    augment_images(const Pixel* __restrict__ raw, float* __restrict__ images, const AugmentArgs args) {
  __shared__ Drawn drawn[kMostAugmentations];
  __shared__ ChannelNumbers shared[kSharedChannels];
  const ChannelNumbers* channels = near_channels(args, shared);
  for (std::int64_t sample = blockIdx.y; sample < args.samples; sample += gridDim.y) {
    __syncthreads();  // the last sample's numbers are done with
    if (threadIdx.x == 0) draw(args, sample, drawn);
    __syncthreads();
    const std::int64_t base = sample * args.elements;
    // Runs begin at whole sectors of the output, wherever the sample begins.
    const int lead = static_cast<int>(base % 8);
#pragma unroll
    for (int i = 0; i < kPixelsPerThread; ++i) {
      const int element =
          (static_cast<int>(blockIdx.x) * kPixelsPerThread + i) * kThreads + static_cast<int>(threadIdx.x) - lead;
      if (element < 0 || element >= args.elements) continue;
      std::uint32_t place, column;
      const std::uint32_t channel = args.plane.divide(static_cast<std::uint32_t>(element), &place);
      const std::uint32_t row = args.row.divide(place, &column);
      const ChannelNumbers numbers = channels[channel];
      const float pixel = changed_pixel(args, drawn, raw + base + (element - static_cast<int>(place)),
                                        static_cast<int>(row), static_cast<int>(column), numbers.blank);
      images[base + element] = normalised(pixel, numbers);
    }
  }
}

struct alignas(4) FourBytes {
  std::uint8_t values[4];
};

// Four elements a thread over the whole batch.
template <class Pixel>
__global__ void __launch_bounds__(kThreads)
    normalise_images(const Pixel* __restrict__ raw, float* __restrict__ images, const AugmentArgs args) {
  using Four = std::conditional_t<std::is_same_v<Pixel, float>, Pack<float>, FourBytes>;
  __shared__ ChannelNumbers shared[kSharedChannels];
  const ChannelNumbers* channels = near_channels(args, shared);
  const std::int64_t total = args.samples * args.elements;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * 4; i < total;
       i += std::int64_t{gridDim.x} * kThreads * 4) {
    // Of the element `k` after the first: a pack may run into the next channel, or the next sample.
    const auto first = static_cast<std::uint32_t>(i % args.elements);
    const auto channel_of = [&](std::uint32_t k) {
      std::uint32_t place = first + k;
      while (place >= static_cast<std::uint32_t>(args.elements)) place -= static_cast<std::uint32_t>(args.elements);
      return channels[args.plane.divide(place)];
    };
    if (i + 4 <= total) {
      const Four from = *reinterpret_cast<const Four*>(raw + i);
      Pack<float> to;
#pragma unroll
      for (int k = 0; k < 4; ++k)
        to.values[k] = normalised(static_cast<float>(from.values[k]), channel_of(static_cast<std::uint32_t>(k)));
      store_pack(images + i, to);
    } else {
      for (std::int64_t k = i; k < total; ++k)
        images[k] = normalised(static_cast<float>(raw[k]), channel_of(static_cast<std::uint32_t>(k - i)));
    }
  }
}

AugmentArgs kernel_args(const DeviceAugmentArgs& from, const DeviceMemory& channels, std::int64_t samples,
                        const CudaDevice& device) {
  AugmentArgs args{.step = device.step(),
                   .channels = reinterpret_cast<const ChannelNumbers*>(channels.data()),
                   .samples = samples,
                   .samples_per_epoch = from.samples_per_epoch,
                   .channel_count = from.channels,
                   .elements = from.channels * from.height * from.width,
                   .height = from.height,
                   .width = from.width,
                   .plane = FastDivisor(std::int64_t{from.height} * from.width),
                   .row = FastDivisor(from.width),
                   .augmentation_count = static_cast<int>(from.augmentations.size()),
                   .augmentations = {}};
  std::copy(from.augmentations.begin(), from.augmentations.end(), args.augmentations);
  return args;
}

}  // namespace

DeviceAugmenter::DeviceAugmenter(CudaDevice& device, const DeviceAugmentArgs& args) : device_(device), args_(args) {
  const auto channels = static_cast<std::size_t>(args.channels);
  TRIFOLD_CHECK(args.mean.size() == channels && args.std.size() == channels,
                "{} means and {} deviations for {} channels", args.mean.size(), args.std.size(), channels);
  TRIFOLD_CHECK(args.augmentations.size() <= kMostAugmentations, "{} augmentations; the device applies {} at most",
                args.augmentations.size(), kMostAugmentations);
  TRIFOLD_CHECK(sample_elements() > 0 && sample_elements() < (std::int64_t{1} << 30) && args.samples_per_epoch > 0,
                "images of {} elements, {} an epoch", sample_elements(), args.samples_per_epoch);
  const float white = args.bytes ? 255.0f : 1.0f;
  std::vector<ChannelNumbers> numbers;
  for (std::size_t c = 0; c < channels; ++c)
    numbers.push_back(
        {.scale = 1.0f / (white * args.std[c]),
         .shift = -args.mean[c] / args.std[c],
         .blank = args.bytes ? std::clamp(std::round(255.0f * args.mean[c]), 0.0f, 255.0f) : args.mean[c]});
  channels_ = DeviceMemory(device, numbers.size() * sizeof(ChannelNumbers));
  device.upload(channels_.data(), numbers.data(), numbers.size() * sizeof(ChannelNumbers));
}

void DeviceAugmenter::augment_and_normalise(const void* raw, std::int64_t samples, float* images) const {
  if (samples == 0) return;
  if (args_.augmentations.empty()) return normalise(raw, samples, images);
  const AugmentArgs args = kernel_args(args_, channels_, samples, device_);
  constexpr int kRun = kThreads * kPixelsPerThread;
  const dim3 grid(static_cast<unsigned>((sample_elements() + 7 + kRun - 1) / kRun),
                  static_cast<unsigned>(std::min<std::int64_t>(samples, 65535)));
  if (args_.bytes)
    augment_images<<<grid, kThreads, 0, device_.compute()>>>(static_cast<const std::uint8_t*>(raw), images, args);
  else
    augment_images<<<grid, kThreads, 0, device_.compute()>>>(static_cast<const float*>(raw), images, args);
  check_launch("augment_images");
}

void DeviceAugmenter::normalise(const void* raw, std::int64_t samples, float* images) const {
  if (samples == 0) return;
  const AugmentArgs args = kernel_args(args_, channels_, samples, device_);
  const unsigned blocks = blocks_for((samples * sample_elements() + 3) / 4, kThreads, device_);
  if (args_.bytes)
    normalise_images<<<blocks, kThreads, 0, device_.compute()>>>(static_cast<const std::uint8_t*>(raw), images, args);
  else
    normalise_images<<<blocks, kThreads, 0, device_.compute()>>>(static_cast<const float*>(raw), images, args);
  check_launch("normalise_images");
}

}  // namespace trifold::cuda
