// "cast": one float type into another, in steps of 16 bytes of the wider one, times the loss scale where asked.
#include <algorithm>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/ops/shape_ops.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;

template <class From, class To>
constexpr int kStepElements = std::min(Pack<From>::kCount, Pack<To>::kCount);

template <class From, class To>
__global__ void __launch_bounds__(kThreads)
    convert(bool packed, std::int64_t elements, const float* scale, const From* from, To* to) {
  constexpr int kStep = kStepElements<From, To>;
  const float factor = scale == nullptr ? 1.0f : scale[0];
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t in_steps = packed ? elements / kStep * kStep : 0;
  for (std::int64_t i = thread * kStep; i < in_steps; i += threads * kStep) {
    float values[kStep];
    load_floats(from + i, values);
#pragma unroll
    for (int k = 0; k < kStep; ++k) values[k] *= factor;
    store_floats(to + i, values);
  }
  for (std::int64_t i = in_steps + thread; i < elements; i += threads)
    to[i] = from_float<To>(to_float(from[i]) * factor);
}

class CastKernel final : public CudaKernel {
 public:
  explicit CastKernel(const KernelRequest& request)
      : CudaKernel(request), scaled_(op_as<Cast>(request).scaled), from_(request.in[0]), to_(request.out[0]) {}

  void run(const StepContext&) override {
    const std::int64_t elements = from_.elements();
    if (elements == 0) return;
    with_element(from_.dtype, [&](auto from) {
      with_element(to_.dtype, [&](auto to) {
        using From = typename decltype(from)::type;
        using To = typename decltype(to)::type;
        const std::int64_t steps = elements / kStepElements<From, To>;
        convert<From, To><<<blocks_for(steps, kThreads, device()), kThreads, 0, stream()>>>(
            aligned_for_packs(in(0), out(0)), elements, scaled_ ? in(1) : nullptr, in<From>(0), out<To>(0));
        check_launch("convert");
      });
    });
  }

 private:
  bool scaled_;
  TensorDesc from_;
  TensorDesc to_;
};

const RegisterKernel register_cast(cuda_backend(), "cast", make_kernel<CastKernel>);

}  // namespace
}  // namespace trifold::cuda
