// Add; concat and its inverse, which copy runs of whole channels: of a sample in NCHW, of a pixel in NHWC.
#include <vector>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/run_copy.h"
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
    copies_.clear();
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const ChannelRun& run = parts_[k];
      std::byte* memory = part_memory(k);
      std::byte* inside = whole + run.first;
      copies_.push_back({.from = to_whole ? memory : inside,
                         .to = to_whole ? inside : memory,
                         .from_run = to_whole ? run.bytes : whole_bytes_,
                         .to_run = to_whole ? whole_bytes_ : run.bytes,
                         .bytes = run.bytes});
    }
    copy_runs(copies_, runs_, device());
  }

 private:
  std::int64_t channel_bytes_ = 0;
  std::int64_t runs_ = 0;
  std::int64_t whole_bytes_ = 0;  // a run
  std::vector<ChannelRun> parts_;
  std::vector<RunCopy> copies_;
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

const RegisterKernel register_shape_ops_add(cuda_backend(), "add", make_kernel<AddKernel>);
const RegisterKernel register_shape_ops_concat(cuda_backend(), "concat", make_kernel<ConcatKernel>);
const RegisterKernel register_shape_ops_split_channels(cuda_backend(), "split_channels",
                                                       make_kernel<SplitChannelsKernel>);

}  // namespace
}  // namespace trifold::cuda
