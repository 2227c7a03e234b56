// The element-wise functions and their gradients, over flat memory: the layout does not matter.
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/ops/activation.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;

// P(X <= x) of a standard normal X.
__device__ __forceinline__ float normal_distribution(float x) {
  return 0.5f * (1.0f + erff(x * 0.70710678f));
}
__device__ __forceinline__ float normal_density(float x) {
  return 0.39894228f * expf(-0.5f * x * x);
}

struct Value {
  Activation function;
  float slope;

  __device__ __forceinline__ float operator()(float x) const {
    switch (function) {
      case Activation::relu:
        return x > 0 ? x : 0.0f;
      case Activation::leaky_relu:
        return x > 0 ? x : slope * x;
      case Activation::gelu:
        return x * normal_distribution(x);
      case Activation::sigmoid:
        return 1.0f / (1.0f + expf(-x));
      case Activation::tanh:
        return tanhf(x);
    }
    return 0;
  }
};

// dy times dy/dx from what is kept: x for gelu, y for all others.
struct Gradient {
  Activation function;
  float slope;

  __device__ __forceinline__ float operator()(float dy, float kept) const {
    switch (function) {
      case Activation::relu:
        return kept > 0 ? dy : 0.0f;
      case Activation::leaky_relu:
        return kept > 0 ? dy : slope * dy;
      case Activation::gelu:
        return dy * (normal_distribution(kept) + kept * normal_density(kept));
      case Activation::sigmoid:
        return dy * kept * (1.0f - kept);
      case Activation::tanh:
        return dy * (1.0f - kept * kept);
    }
    return 0;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    activation_forward(Value value, bool packed, std::int64_t elements, const T* x, T* y) {
  map_elements(value, packed, elements, y, x);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    activation_backward(Gradient gradient, bool packed, std::int64_t elements, const T* dy, const T* kept, T* dx) {
  map_elements(gradient, packed, elements, dx, dy, kept);
}

class ForwardKernel final : public CudaKernel {
 public:
  explicit ForwardKernel(const KernelRequest& request)
      : CudaKernel(request),
        value_{op_as<ActivationForward>(request).function, static_cast<float>(op_as<ActivationForward>(request).slope)},
        tensor_(request.out[0]) {}

  void run(const StepContext&) override {
    const std::int64_t elements = tensor_.elements();
    if (elements == 0) return;
    with_element(tensor_.dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      activation_forward<T><<<blocks_for(elements / Pack<T>::kCount, kThreads, device()), kThreads, 0, stream()>>>(
          value_, aligned_for_packs(in(0), out(0)), elements, in<T>(0), out<T>(0));
      check_launch("activation_forward");
    });
  }

 private:
  Value value_;
  TensorDesc tensor_;
};

class BackwardKernel final : public CudaKernel {
 public:
  explicit BackwardKernel(const KernelRequest& request)
      : CudaKernel(request),
        gradient_{op_as<ActivationBackward>(request).function,
                  static_cast<float>(op_as<ActivationBackward>(request).slope)},
        tensor_(request.out[0]) {}

  void run(const StepContext&) override {
    const std::int64_t elements = tensor_.elements();
    if (elements == 0) return;
    with_element(tensor_.dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      activation_backward<T><<<blocks_for(elements / Pack<T>::kCount, kThreads, device()), kThreads, 0, stream()>>>(
          gradient_, aligned_for_packs(in(0), in(1), out(0)), elements, in<T>(0), in<T>(1), out<T>(0));
      check_launch("activation_backward");
    });
  }

 private:
  Gradient gradient_;
  TensorDesc tensor_;
};

const RegisterKernel register_activation_forward(cuda_backend(), "activation.forward", make_kernel<ForwardKernel>);
const RegisterKernel register_activation_backward(cuda_backend(), "activation.backward", make_kernel<BackwardKernel>);

}  // namespace
}  // namespace trifold::cuda
