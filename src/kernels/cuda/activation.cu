// The element-wise functions and their gradients, over flat memory: the layout does not matter.
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/ops/activation.h"
#include "kernels/scalar_number.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;

using Number = ScalarNumber<float>;

struct Parameters {
  float values[kMostActivationParameters];

  explicit Parameters(const ActivationParameters& from) {
    for (int i = 0; i < kMostActivationParameters; ++i)
      values[i] = static_cast<float>(from[static_cast<std::size_t>(i)]);
  }
};

template <class Function>
struct Value {
  Parameters parameters;

  __device__ __forceinline__ float operator()(float x) const {
    const Number numbers[] = {Number::of(parameters.values[0]), Number::of(parameters.values[1])};
    return AppliedActivation<Function>::value(Number::of(x), numbers).value;
  }
};

template <class Function>
struct Gradient {
  Parameters parameters;

  __device__ __forceinline__ float operator()(float dy, float kept) const {
    const Number numbers[] = {Number::of(parameters.values[0]), Number::of(parameters.values[1])};
    return AppliedActivation<Function>::gradient(Number::of(dy), Number::of(kept), numbers).value;
  }
};

template <class T, class Function>
__global__ void __launch_bounds__(kThreads)
    activation_forward(Value<Function> value, bool packed, std::int64_t elements, const T* x, T* y) {
  map_elements(value, packed, elements, y, x);
}

template <class T, class Function>
__global__ void __launch_bounds__(kThreads)
    activation_backward(Gradient<Function> gradient, bool packed, std::int64_t elements, const T* dy, const T* kept,
                        T* dx) {
  map_elements(gradient, packed, elements, dx, dy, kept);
}

class ForwardKernel final : public CudaKernel {
 public:
  explicit ForwardKernel(const KernelRequest& request)
      : CudaKernel(request), op_(op_as<ActivationForward>(request)), tensor_(request.out[0]) {}

  void run(const StepContext&) override {
    if (tensor_.elements() == 0) return;
    with_element(tensor_.dtype, [&](auto element) {
      with_function(op_.function, [&](auto function) { launch<typename decltype(element)::type>(function); });
    });
  }

 private:
  template <class T, class Function>
  void launch(Function) {
    const std::int64_t elements = tensor_.elements();
    activation_forward<T, Function>
        <<<blocks_for(elements / Pack<T>::kCount, kThreads, device()), kThreads, 0, stream()>>>(
            {Parameters(op_.parameters)}, aligned_for_packs(in(0), out(0)), elements, in<T>(0), out<T>(0));
    check_launch("activation_forward");
  }

  ActivationForward op_;
  TensorDesc tensor_;
};

class BackwardKernel final : public CudaKernel {
 public:
  explicit BackwardKernel(const KernelRequest& request)
      : CudaKernel(request), op_(op_as<ActivationBackward>(request)), tensor_(request.out[0]) {}

  void run(const StepContext&) override {
    if (tensor_.elements() == 0) return;
    with_element(tensor_.dtype, [&](auto element) {
      with_function(op_.function, [&](auto function) { launch<typename decltype(element)::type>(function); });
    });
  }

 private:
  template <class T, class Function>
  void launch(Function) {
    const std::int64_t elements = tensor_.elements();
    activation_backward<T, Function>
        <<<blocks_for(elements / Pack<T>::kCount, kThreads, device()), kThreads, 0, stream()>>>(
            {Parameters(op_.parameters)}, aligned_for_packs(in(0), in(1), out(0)), elements, in<T>(0), in<T>(1),
            out<T>(0));
    check_launch("activation_backward");
  }

  ActivationBackward op_;
  TensorDesc tensor_;
};

const RegisterKernel register_activation_forward(cuda_backend(), "activation.forward", make_kernel<ForwardKernel>);
const RegisterKernel register_activation_backward(cuda_backend(), "activation.backward", make_kernel<BackwardKernel>);

}  // namespace
}  // namespace trifold::cuda
