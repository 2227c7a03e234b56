// Dropout: forward and backward draw the same Philox numbers where they use them, so no mask is kept. Seed and place of
// the batch come from device memory. Neighbours in NHWC share a Philox block of four; in NCHW each needs its own.
#include <algorithm>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/fast_divide.cuh"
#include "kernels/cuda/philox.cuh"
#include "kernels/ops/dropout.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;

struct DropArgs {
  const DeviceStep* step;
  std::uint32_t layer;
  float probability;
  float factor;  // of what is kept
  bool by_channel;
  bool planar;        // NCHW
  FastDivisor inner;  // extent that varies fastest in memory: pixels if planar, else channels
  std::uint32_t outer;
  std::uint32_t first_channel;  // of a tensor that is part of a whole: where it begins in it
  std::uint32_t first_pixel;
  std::uint32_t whole_channels;
  std::int64_t samples;
  bool relu;
};

// Walks over the elements of one sample and says what each is multiplied by.
class Factors {
 public:
  __device__ __forceinline__ Factors(const DropArgs& args, std::uint64_t seed, std::uint64_t sample,
                                     std::uint32_t element)
      : args_(args), seed_(seed), sample_(sample) {
    outer_ = args.inner.divide(element, &inner_);
  }

  __device__ __forceinline__ float next() {
    const std::uint32_t channel = args_.first_channel + (args_.planar ? outer_ : inner_);
    const std::uint32_t pixel = args_.first_pixel + (args_.planar ? inner_ : outer_);
    const std::uint32_t number = args_.by_channel ? channel : pixel * args_.whole_channels + channel;
    if (number / 4 != block_) {
      block_ = number / 4;
      numbers_ = random_block_on_device(seed_, Purpose::dropout, args_.layer, sample_, block_);
    }
    if (++inner_ == args_.inner.divisor()) {
      inner_ = 0;
      ++outer_;
    }
    return uniform_on_device(numbers_, number % 4) < args_.probability ? 0.0f : args_.factor;
  }

 private:
  const DropArgs& args_;
  std::uint64_t seed_, sample_;
  std::uint32_t inner_ = 0, outer_ = 0;
  std::uint32_t block_ = 0xffffffffu;  // no block: numbers are below 2^31
  uint4 numbers_ = {};
};

// gate: forward's y where backward has to undo a relu, or null. Grid: packs of a sample, samples.
template <class T, int kPack>
__global__ void __launch_bounds__(kThreads) drop(DropArgs args, const T* x, const T* gate, T* y) {
  const std::uint64_t seed = args.step->seed;
  const std::int64_t first_sample = args.step->first_sample;
  const std::uint32_t elements = args.inner.divisor() * args.outer;
  for (std::int64_t sample = blockIdx.y; sample < args.samples; sample += gridDim.y) {
    for (std::uint32_t element = (blockIdx.x * kThreads + threadIdx.x) * kPack; element < elements;
         element += gridDim.x * kThreads * kPack) {
      const std::int64_t at = sample * elements + element;
      float values[kPack];
      load_floats(x + at, values);
      float kept[kPack];
      if (gate != nullptr) load_floats(gate + at, kept);
      Factors factors(args, seed, static_cast<std::uint64_t>(first_sample + sample), element);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        values[i] *= factors.next();
        if (args.relu && !(values[i] > 0)) values[i] = 0;
        if (gate != nullptr && !(kept[i] > 0)) values[i] = 0;
      }
      store_floats(y + at, values);
    }
  }
}

class DropoutKernel : public CudaKernel {
 public:
  DropoutKernel(const KernelRequest& request, const DropoutArgs& args)
      : CudaKernel(request), dtype_(request.in[0].dtype), view_(image_view(request.in[0])) {
    const bool planar = view_.block == 1 && view_.pixels > 1;
    const std::int64_t whole_channels = args.whole_channels > 0 ? args.whole_channels : view_.channels;
    const std::int64_t numbers = whole_channels * (args.first_pixel + view_.pixels);
    TRIFOLD_CHECK(numbers < (std::int64_t{1} << 31), "a sample of {} elements is too large", numbers);
    args_ = {.step = step(),
             .layer = args.layer,
             .probability = static_cast<float>(args.probability),
             .factor = static_cast<float>(1 / (1 - args.probability)),
             .by_channel = args.channels,
             .planar = planar,
             .inner = FastDivisor(planar ? view_.pixels : view_.channels),
             .outer = static_cast<std::uint32_t>(planar ? view_.channels : view_.pixels),
             .first_channel = static_cast<std::uint32_t>(args.first_channel),
             .first_pixel = static_cast<std::uint32_t>(args.first_pixel),
             .whole_channels = static_cast<std::uint32_t>(whole_channels),
             .samples = view_.samples,
             .relu = false};
  }

 protected:
  void drop_elements(bool relu, bool gated) {
    args_.relu = relu;
    with_element(dtype_, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* gate = gated ? in<T>(1) : nullptr;
      const bool packed =
          view_.channels * view_.pixels % Pack<T>::kCount == 0 && aligned_for_packs(in(0), gate, out(0));
      packed ? launch<T, Pack<T>::kCount>(gate) : launch<T, 1>(gate);
    });
  }

 private:
  template <class T, int kPack>
  void launch(const T* gate) {
    const std::int64_t packs = view_.channels * view_.pixels / kPack;
    const std::int64_t blocks = std::max<std::int64_t>(1, std::int64_t{8} * device().multiprocessors());
    const std::int64_t across = std::clamp<std::int64_t>((packs + kThreads - 1) / kThreads, 1, blocks);
    const std::int64_t down =
        std::clamp<std::int64_t>(blocks / across, 1, std::min<std::int64_t>(view_.samples, 65535));
    drop<T, kPack><<<dim3(static_cast<unsigned>(across), static_cast<unsigned>(down)), kThreads, 0, stream()>>>(
        args_, in<T>(0), gate, out<T>(0));
    check_launch("drop");
  }

  DType dtype_;
  ImageView view_;
  DropArgs args_{};
};

class ForwardKernel final : public DropoutKernel {
 public:
  explicit ForwardKernel(const KernelRequest& request)
      : DropoutKernel(request, op_as<DropoutForward>(request).args), relu_(op_as<DropoutForward>(request).relu) {}
  void run(const StepContext&) override { drop_elements(relu_, false); }

 private:
  bool relu_;
};

class BackwardKernel final : public DropoutKernel {
 public:
  explicit BackwardKernel(const KernelRequest& request)
      : DropoutKernel(request, op_as<DropoutBackward>(request).args), relu_(op_as<DropoutBackward>(request).relu) {}
  void run(const StepContext&) override { drop_elements(false, relu_); }

 private:
  bool relu_;
};

const RegisterKernel register_dropout_forward(cuda_backend(), "dropout.forward", make_kernel<ForwardKernel>);
const RegisterKernel register_dropout_backward(cuda_backend(), "dropout.backward", make_kernel<BackwardKernel>);

}  // namespace
}  // namespace trifold::cuda
