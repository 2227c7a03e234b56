// One matrix product by cuBLASLt, described and its algorithm chosen once: D = op(A) op(B), column-major, accumulated
// in float.
#pragma once

#include "core/cuda/cuda_device.h"
#include "core/dtype.h"

namespace trifold::cuda {

class CublasMatmul {
 public:
  // D is [rows, columns]; op(A) [rows, inner], op(B) [inner, columns]. Leading dimensions are the rows as stored.
  struct Args {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t inner = 0;
    DType a_type = DType::f32;
    bool a_transposed = false;
    DType b_type = DType::f32;
    bool b_transposed = false;
    DType d_type = DType::f32;
    bool bias = false;  // f32, one a row of D; D must be f32
    bool relu = false;
    std::size_t workspace_limit = 0;
  };
  CublasMatmul(CudaDevice& device, const Args& args);

  std::size_t workspace_bytes() const { return workspace_bytes_; }

  struct Operands {
    const void* a = nullptr;
    const void* b = nullptr;
    void* d = nullptr;
    const float* bias = nullptr;
    void* workspace = nullptr;
  };
  void run(const Operands& operands);

 private:
  CudaDevice& device_;
  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> description_;
  Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> a_, b_, d_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_bytes_ = 0;
  bool bias_ = false;
};

}  // namespace trifold::cuda
