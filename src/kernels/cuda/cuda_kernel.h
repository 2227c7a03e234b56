// What the kernels of the CUDA backend share on the host side: the device they run on, launch shapes, and the choice of
// a template instance by element type.
#pragma once

#include <algorithm>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "core/cuda/cuda_device.h"
#include "core/error.h"
#include "kernels/backend.h"

namespace trifold::cuda {

Backend& cuda_backend();
Backend& own_conv_backend();  // the same, with our own convolutions

class CudaKernel : public Kernel {
 public:
  explicit CudaKernel(const KernelRequest& request) : device_(static_cast<CudaDevice&>(*request.device)) {}
  std::string implementation() const override { return "own"; }

 protected:
  CudaDevice& device() const { return device_; }
  cudaStream_t stream() const { return device_.compute(); }
  const DeviceStep* step() const { return device_.step(); }

 private:
  CudaDevice& device_;
};

// Blocks for a grid-stride loop over `items` with `threads` a block: enough to fill the GPU, no more than there is
// work.
inline unsigned blocks_for(std::int64_t items, int threads, const CudaDevice& device,
                           int blocks_per_multiprocessor = 8) {
  const std::int64_t wanted = (items + threads - 1) / threads;
  const std::int64_t most = std::int64_t{blocks_per_multiprocessor} * device.multiprocessors();
  return static_cast<unsigned>(std::max<std::int64_t>(1, std::min(wanted, most)));
}

// Whether 16 bytes at a time can be moved from or to all of these.
template <class... T>
bool aligned_for_packs(const T*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

// After every launch: a wrong launch shape is an error here, not later.
inline void check_launch(const char* kernel) {
  check(cudaPeekAtLastError(), kernel);
}

template <class T>
struct ElementType {
  using type = T;
};

// Calls `body` with ElementType<float>, <__half> or <__nv_bfloat16>.
template <class Body>
decltype(auto) with_element(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f16:
      return body(ElementType<__half>{});
    case DType::bf16:
      return body(ElementType<__nv_bfloat16>{});
    default:
      TRIFOLD_CHECK(dtype == DType::f32, "no kernel for elements of {}", name_of(dtype));
      return body(ElementType<float>{});
  }
}

// How an activation [N, C, pixels] lies in memory: [N, C/block, pixels, block]. block 1 is NCHW, block C is NHWC.
struct ImageView {
  std::int64_t samples = 0;
  std::int64_t channels = 0;
  std::int64_t pixels = 0;
  std::int64_t block = 1;
  std::int64_t elements() const { return samples * channels * pixels; }
};
// Of a plain or channels-last activation; [N, F] has one pixel.
ImageView image_view(const TensorDesc& desc);

}  // namespace trifold::cuda
