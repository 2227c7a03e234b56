#include "core/cuda/cuda_check.h"

#include "core/error.h"

namespace trifold::cuda {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  if (status == cudaErrorMemoryAllocation)
    fail_runtime("the GPU has too little free memory ({}); make train.batch smaller or train.accumulate larger", call);
  fail_runtime("CUDA: {} ({}) in {}", cudaGetErrorString(status), cudaGetErrorName(status), call);
}

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) fail_runtime("cuBLAS: {} in {}", cublasLtGetStatusString(status), call);
}

void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) fail_runtime("cuDNN: {} in {}", cudnnGetErrorString(status), call);
}

}  // namespace trifold::cuda
