#include "core/cuda/cuda_handles.h"

namespace trifold::cuda {

Stream make_stream() {
  cudaStream_t stream = nullptr;
  TRIFOLD_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

Event make_event() {
  cudaEvent_t event = nullptr;
  TRIFOLD_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return Event(event);
}

CudnnHandle make_cudnn(cudaStream_t stream) {
  cudnnHandle_t handle = nullptr;
  TRIFOLD_CUDA(cudnnCreate(&handle));
  CudnnHandle owned(handle);
  TRIFOLD_CUDA(cudnnSetStream(handle, stream));
  return owned;
}

CublasLtHandle make_cublas() {
  cublasLtHandle_t handle = nullptr;
  TRIFOLD_CUDA(cublasLtCreate(&handle));
  return CublasLtHandle(handle);
}

PinnedMemory make_pinned(std::size_t bytes) {
  void* memory = nullptr;
  TRIFOLD_CUDA(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault));
  return PinnedMemory(memory);
}

}  // namespace trifold::cuda
