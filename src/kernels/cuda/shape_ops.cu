// Add; concat and its inverse, which copy runs of whole channels: of a sample in NCHW, of a pixel in NHWC.
#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/fast_divide.cuh"
#include "kernels/ops/shape_ops.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;

struct Sum {
  bool relu;
  __device__ __forceinline__ float operator()(float left, float right) const {
    const float sum = left + right;
    return relu && !(sum > 0) ? 0.0f : sum;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    add_elements(Sum sum, bool packed, std::int64_t elements, const T* left, const T* right, T* out) {
  map_elements(sum, packed, elements, out, left, right);
}

class AddKernel final : public CudaKernel {
 public:
  explicit AddKernel(const KernelRequest& request)
      : CudaKernel(request), sum_{op_as<Add>(request).relu}, tensor_(request.out[0]) {}

  void run(const StepContext&) override {
    const std::int64_t elements = tensor_.elements();
    if (elements == 0) return;
    with_element(tensor_.dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      add_elements<T><<<blocks_for(elements / Pack<T>::kCount, kThreads, device()), kThreads, 0, stream()>>>(
          sum_, aligned_for_packs(in(0), in(1), out(0)), elements, in<T>(0), in<T>(1), out<T>(0));
      check_launch("add_elements");
    });
  }

 private:
  Sum sum_;
  TensorDesc tensor_;
};

// Copies of parts of runs: item i of run r goes from `from` + r * from_run + i to `to` + r * to_run + i.
struct RunCopy {
  const std::byte* from;
  std::byte* to;
  std::int64_t from_run, to_run;  // from one run to the next, in items
  FastDivisor items;              // to copy of each run
};

// One launch copies several parts: blockIdx.y is the part.
constexpr std::size_t kPartsPerLaunch = 8;
struct RunCopies {
  RunCopy parts[kPartsPerLaunch];
  std::int64_t runs;
};

template <class Item>
__global__ void __launch_bounds__(kThreads) copy_runs(RunCopies copies) {
  const RunCopy& part = copies.parts[blockIdx.y];
  const auto* from = reinterpret_cast<const Item*>(part.from);
  auto* to = reinterpret_cast<Item*>(part.to);
  const std::uint32_t items = part.items.divisor();
  const std::uint32_t total = static_cast<std::uint32_t>(copies.runs * items);
  for (std::uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < total; i += gridDim.x * kThreads) {
    std::uint32_t item;
    const std::int64_t run = part.items.divide(i, &item);
    to[run * part.to_run + item] = from[run * part.from_run + item];
  }
}

// A part of the whole's channels.
struct ChannelRun {
  std::int64_t first = 0;  // bytes of a run of the whole before it
  std::int64_t bytes = 0;  // of a run of the part
};

// Concat and split: the same runs, copied one way or the other.
class ChannelCopyKernel : public CudaKernel {
 public:
  ChannelCopyKernel(const KernelRequest& request, const TensorDesc& whole) : CudaKernel(request) {
    const ImageView view = image_view(whole);
    const bool planar = view.block == 1;
    channel_bytes_ = static_cast<std::int64_t>(size_of(whole.dtype)) * (planar ? view.pixels : 1);
    runs_ = view.samples * (planar ? 1 : view.pixels);
    whole_bytes_ = view.channels * channel_bytes_;
  }

 protected:
  void add_part(const TensorDesc& part, std::int64_t first_channel) {
    parts_.push_back({first_channel * channel_bytes_, part.shape.channels() * channel_bytes_});
  }

  // part(k) and the whole, as `to_whole` says.
  template <class PartMemory>
  void copy(bool to_whole, std::byte* whole, const PartMemory& part_memory) {
    for (std::size_t first = 0; first < parts_.size(); first += kPartsPerLaunch) {
      const std::size_t count = std::min(kPartsPerLaunch, parts_.size() - first);
      // The largest power of two that everything is a multiple of.
      const auto misalignment = [](const std::byte* memory) {
        return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory) % 16);
      };
      std::int64_t unit = std::gcd(std::int64_t{16}, std::gcd(misalignment(whole), whole_bytes_));
      for (std::size_t k = first; k < first + count; ++k) {
        const ChannelRun& run = parts_[k];
        unit = std::gcd(std::gcd(unit, misalignment(part_memory(k))), std::gcd(run.first, run.bytes));
      }
      RunCopies copies{};
      copies.runs = runs_;
      std::int64_t most = 1;
      for (std::size_t k = 0; k < count; ++k) {
        const ChannelRun& run = parts_[first + k];
        std::byte* memory = part_memory(first + k);
        std::byte* inside = whole + run.first;
        most = std::max(most, runs_ * run.bytes / unit);
        copies.parts[k] = {.from = to_whole ? memory : inside,
                           .to = to_whole ? inside : memory,
                           .from_run = (to_whole ? run.bytes : whole_bytes_) / unit,
                           .to_run = (to_whole ? whole_bytes_ : run.bytes) / unit,
                           .items = FastDivisor(run.bytes / unit)};
      }
      TRIFOLD_CHECK(most < (std::int64_t{1} << 31), "a part of {} items is too large", most);
      const dim3 grid(blocks_for(most, kThreads, device()), static_cast<unsigned>(count));
      launch(unit, grid, copies);
    }
  }

 private:
  void launch(std::int64_t unit, dim3 grid, const RunCopies& copies) {
    if (unit == 16)
      copy_runs<uint4><<<grid, kThreads, 0, stream()>>>(copies);
    else if (unit == 8)
      copy_runs<uint2><<<grid, kThreads, 0, stream()>>>(copies);
    else if (unit == 4)
      copy_runs<unsigned><<<grid, kThreads, 0, stream()>>>(copies);
    else
      copy_runs<unsigned short><<<grid, kThreads, 0, stream()>>>(copies);
    check_launch("copy_runs");
  }

  std::int64_t channel_bytes_ = 0;
  std::int64_t runs_ = 0;
  std::int64_t whole_bytes_ = 0;  // a run
  std::vector<ChannelRun> parts_;
};

class ConcatKernel final : public ChannelCopyKernel {
 public:
  explicit ConcatKernel(const KernelRequest& request) : ChannelCopyKernel(request, request.out[0]) {
    std::int64_t first_channel = 0;
    for (const TensorDesc& part : request.in) {
      add_part(part, first_channel);
      first_channel += part.shape.channels();
    }
  }

  void run(const StepContext&) override {
    copy(true, out<std::byte>(0), [&](std::size_t k) { return const_cast<std::byte*>(in<std::byte>(k)); });
  }
};

class SplitChannelsKernel final : public ChannelCopyKernel {
 public:
  explicit SplitChannelsKernel(const KernelRequest& request) : ChannelCopyKernel(request, request.in[0]) {
    const auto& first_channel = op_as<SplitChannels>(request).first_channel;
    for (std::size_t k = 0; k < request.out.size(); ++k) add_part(request.out[k], first_channel[k]);
  }

  void run(const StepContext&) override {
    copy(false, const_cast<std::byte*>(in<std::byte>(0)), [&](std::size_t k) { return out<std::byte>(k); });
  }
};

const RegisterKernel add(cuda_backend(), "add", make_kernel<AddKernel>);
const RegisterKernel concat(cuda_backend(), "concat", make_kernel<ConcatKernel>);
const RegisterKernel split_channels(cuda_backend(), "split_channels", make_kernel<SplitChannelsKernel>);

}  // namespace
}  // namespace trifold::cuda
