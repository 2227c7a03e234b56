// Images from raw pixels: the random changes and the normalisation in one pass, with the numbers that the host's give,
// to the bit. Seed and place of the batch come from device memory.
#include <algorithm>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/fast_divide.cuh"
#include "kernels/cuda/philox.cuh"
#include "kernels/ops/prepare_images.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPixelsPerThread = 4;
constexpr int kSharedChannels = 64;

// Two roundings, as on the host: a fused multiply-add would differ in the last bit.
__device__ __forceinline__ float normalised(float raw, const ChannelNumbers& channel) {
  return __fadd_rn(__fmul_rn(raw, channel.scale), channel.shift);
}

// An Augmentation as kernels read it.
struct Change {
  enum class Kind { crop, flip, cutout } kind;
  int size_px;        // crop: zero pixels around the image; cutout: the square's side
  float probability;  // flip
};

struct PrepareArgs {
  const DeviceStep* step;
  const ChannelNumbers* channels;
  std::int64_t samples;
  int channel_count;
  int elements, height, width;  // elements of a sample
  FastDivisor plane, row;
  int change_count;
  Change changes[kMostAugmentations];
};

// The channels' numbers in shared memory, if there are few, as there are for images. All threads must come.
__device__ __forceinline__ const ChannelNumbers* near_channels(const PrepareArgs& args, ChannelNumbers* shared) {
  if (args.channel_count > kSharedChannels) return args.channels;
  if (static_cast<int>(threadIdx.x) < args.channel_count) shared[threadIdx.x] = args.channels[threadIdx.x];
  __syncthreads();
  return shared;
}

// What an augmentation drew for one sample.
struct Drawn {
  Change::Kind kind;
  int down, right;  // crop: the window's place; cutout: the square's corner; flip: `down` tells whether
  int side;         // of the square
};

// augment_sequence(): a few numbers, one after the other.
class DeviceSequence {
 public:
  __device__ DeviceSequence(std::uint64_t seed, std::uint64_t place) : seed_(seed), place_(place) {}
  __device__ std::uint32_t bits() {
    if (used_ == 4) {
      block_ = random_block_on_device(seed_, Purpose::augment, 0, place_, next_block_++);
      used_ = 0;
    }
    const std::uint32_t number = used_ == 0 ? block_.x : used_ == 1 ? block_.y : used_ == 2 ? block_.z : block_.w;
    ++used_;
    return number;
  }
  __device__ float uniform() { return static_cast<float>(bits() >> 8) * 0x1.0p-24f; }
  __device__ int below(int count) { return static_cast<int>(__umulhi(bits(), static_cast<std::uint32_t>(count))); }

 private:
  std::uint64_t seed_, place_;
  uint4 block_ = {};
  std::uint32_t next_block_ = 0;
  int used_ = 4;
};

__device__ void draw(const PrepareArgs& args, std::int64_t sample, Drawn* drawn) {
  DeviceSequence random(args.step->seed, static_cast<std::uint64_t>(args.step->first_sample + sample));
  for (int i = 0; i < args.change_count; ++i) {
    const Change& a = args.changes[i];
    Drawn& to = drawn[i];
    to = {.kind = a.kind, .down = 0, .right = 0, .side = a.size_px};
    switch (a.kind) {
      case Change::Kind::crop:
        to.down = random.below(2 * a.size_px + 1) - a.size_px;
        to.right = random.below(2 * a.size_px + 1) - a.size_px;
        break;
      case Change::Kind::flip:
        to.down = random.uniform() < a.probability ? 1 : 0;
        break;
      case Change::Kind::cutout:
        to.down = random.below(args.height) - a.size_px / 2;
        to.right = random.below(args.width) - a.size_px / 2;
        break;
    }
  }
}

// The raw pixel that ends at (row, column): the changes are walked back, last first, until one of them made it up.
__device__ __forceinline__ float changed_pixel(const PrepareArgs& args, const Drawn* drawn, const std::uint8_t* plane,
                                               int row, int column, float blank) {
  for (int i = args.change_count - 1; i >= 0; --i) {
    const Drawn& d = drawn[i];
    if (d.kind == Change::Kind::flip) {
      if (d.down != 0) column = args.width - 1 - column;
    } else if (d.kind == Change::Kind::crop) {
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
__global__ void __launch_bounds__(kThreads)
    augment_images(const std::uint8_t* __restrict__ raw, float* __restrict__ images, const PrepareArgs args) {
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
__global__ void __launch_bounds__(kThreads)
    normalise_images(const std::uint8_t* __restrict__ raw, float* __restrict__ images, const PrepareArgs args) {
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
      const FourBytes from = *reinterpret_cast<const FourBytes*>(raw + i);
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

Change change_of(const Augmentation& augmentation) {
  if (const auto* crop = std::get_if<RandomCrop>(&augmentation)) return {Change::Kind::crop, crop->padding_px, 0};
  if (const auto* flip = std::get_if<HorizontalFlip>(&augmentation)) return {Change::Kind::flip, 0, flip->probability};
  return {Change::Kind::cutout, std::get<Cutout>(augmentation).side_px, 0};
}

class PrepareKernel final : public CudaKernel {
 public:
  explicit PrepareKernel(const KernelRequest& request) : CudaKernel(request) {
    const PrepareImagesArgs& from = op_as<PrepareImages>(request).args;
    const TensorDesc& raw = request.in[0];
    const std::int64_t elements = raw.elements() / raw.shape[0];
    TRIFOLD_CHECK(raw.dtype == DType::u8 && elements < (std::int64_t{1} << 30), "{} cannot be prepared as images",
                  to_string(raw));
    TRIFOLD_CHECK(from.augmentations.size() <= kMostAugmentations, "{} augmentations; one op applies {} at most",
                  from.augmentations.size(), kMostAugmentations);
    const std::vector<ChannelNumbers> numbers = from.channel_numbers();
    channels_ = DeviceMemory(device(), numbers.size() * sizeof(ChannelNumbers));
    device().upload(channels_.data(), numbers.data(), channels_.bytes());
    args_ = {.step = step(),
             .channels = reinterpret_cast<const ChannelNumbers*>(channels_.data()),
             .samples = raw.shape[0],
             .channel_count = static_cast<int>(raw.shape[1]),
             .elements = static_cast<int>(elements),
             .height = static_cast<int>(raw.shape[2]),
             .width = static_cast<int>(raw.shape[3]),
             .plane = FastDivisor(raw.shape.pixels()),
             .row = FastDivisor(raw.shape[3]),
             .change_count = static_cast<int>(from.augmentations.size()),
             .changes = {}};
    std::transform(from.augmentations.begin(), from.augmentations.end(), args_.changes, change_of);
  }

  void run(const StepContext&) override { args_.change_count > 0 ? augment() : normalise(); }

 private:
  void augment() {
    constexpr int kRun = kThreads * kPixelsPerThread;
    const dim3 grid(static_cast<unsigned>((args_.elements + 7 + kRun - 1) / kRun),
                    static_cast<unsigned>(std::min<std::int64_t>(args_.samples, 65535)));
    augment_images<<<grid, kThreads, 0, stream()>>>(in<std::uint8_t>(0), out(0), args_);
    check_launch("augment_images");
  }

  void normalise() {
    const unsigned blocks = blocks_for((args_.samples * args_.elements + 3) / 4, kThreads, device());
    normalise_images<<<blocks, kThreads, 0, stream()>>>(in<std::uint8_t>(0), out(0), args_);
    check_launch("normalise_images");
  }

  DeviceMemory channels_;  // [C] of ChannelNumbers
  PrepareArgs args_{};
};

const RegisterKernel register_prepare_images_prepare(cuda_backend(), "prepare_images", make_kernel<PrepareKernel>);

}  // namespace
}  // namespace trifold::cuda
