// Owners of CUDA's streams, events, graphs and library handles: made in the constructor, given back in the destructor.
#pragma once

#include <memory>
#include <type_traits>

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include "core/cuda/cuda_check.h"

namespace trifold::cuda {

// A handle of CUDA's that `Destroy` gives back. Errors while giving back are ignored: there is nothing left to do.
template <class Handle, auto Destroy>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  Handle get() const { return handle_.get(); }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  struct Deleter {
    using pointer = Handle;
    void operator()(Handle handle) const { static_cast<void>(Destroy(handle)); }
  };
  std::unique_ptr<std::remove_pointer_t<Handle>, Deleter> handle_;
};

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;
using CudnnHandle = Owned<cudnnHandle_t, cudnnDestroy>;
using CublasLtHandle = Owned<cublasLtHandle_t, cublasLtDestroy>;
using PinnedMemory = Owned<void*, cudaFreeHost>;

Stream make_stream();  // does not wait for the legacy default stream
Event make_event();    // without timing
CudnnHandle make_cudnn(cudaStream_t stream);
CublasLtHandle make_cublas();
PinnedMemory make_pinned(std::size_t bytes);

}  // namespace trifold::cuda
