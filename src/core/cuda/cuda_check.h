// Turns the error codes of CUDA's libraries into exceptions that name the call and what the library says about it.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

namespace trifold::cuda {

void check(cudaError_t status, const char* call);
void check(cublasStatus_t status, const char* call);
void check(cudnnStatus_t status, const char* call);

}  // namespace trifold::cuda

#define TRIFOLD_CUDA(call) ::trifold::cuda::check((call), #call)
