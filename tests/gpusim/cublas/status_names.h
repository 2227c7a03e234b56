// The texts of cublasStatus_t, which cuBLAS and cuBLASLt both give out.
#pragma once

#include <cublas_api.h>

namespace gpusim {

const char* name_of(cublasStatus_t status);
const char* description_of(cublasStatus_t status);

}  // namespace gpusim
