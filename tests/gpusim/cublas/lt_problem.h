// What a matmul descriptor and four layouts describe together, checked as cublasLtMatmul checks them; the heuristic and
// the product itself start from here.
#pragma once

#include "cublas/lt_descriptors.h"
#include "cublas/matmul.h"

namespace gpusim {

struct LtArgs {
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  cublasLtMatrixLayout_t d = nullptr;
};

struct LtProblem {
  Matmul matmul;                // without pointers and scalars
  std::uint64_t signature = 0;  // of all that an algorithm depends on but the sizes
};

// CUBLAS_STATUS_SUCCESS, or the refusal.
cublasStatus_t describe(const std::string& function, const LtArgs& args, LtProblem& problem);

std::size_t workspace_bytes(const LtProblem& problem, LtAlgorithm algorithm);

}  // namespace gpusim
