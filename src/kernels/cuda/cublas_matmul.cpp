#include "kernels/cuda/cublas_matmul.h"

#include "core/error.h"

namespace trifold::cuda {
namespace {

cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      TRIFOLD_CHECK(false, "cuBLAS has no products of {}", name_of(type));
  }
}

using MatrixLayout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

MatrixLayout matrix(DType type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  TRIFOLD_CUDA(cublasLtMatrixLayoutCreate(&layout, data_type(type), static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(columns), rows));
  return MatrixLayout(layout);
}

template <class T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  TRIFOLD_CUDA(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)));
}

cublasLtEpilogue_t epilogue_of(const CublasMatmul::Args& args) {
  if (args.bias) return args.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return args.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

CublasMatmul::CublasMatmul(CudaDevice& device, const Args& args) : device_(device), bias_(args.bias) {
  device.make_current();
  cublasLtMatmulDesc_t description = nullptr;
  // f32 means f32: no TF32.
  TRIFOLD_CUDA(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  description_ = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>(description);
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, args.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, args.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(args));
  a_ = args.a_transposed ? matrix(args.a_type, args.inner, args.rows) : matrix(args.a_type, args.rows, args.inner);
  b_ =
      args.b_transposed ? matrix(args.b_type, args.columns, args.inner) : matrix(args.b_type, args.inner, args.columns);
  d_ = matrix(args.d_type, args.rows, args.columns);

  cublasLtMatmulPreference_t preference = nullptr;
  TRIFOLD_CUDA(cublasLtMatmulPreferenceCreate(&preference));
  const Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> owned(preference);
  TRIFOLD_CUDA(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                    &args.workspace_limit, sizeof(args.workspace_limit)));
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  TRIFOLD_CUDA(cublasLtMatmulAlgoGetHeuristic(device.cublas(), description, a_.get(), b_.get(), d_.get(), d_.get(),
                                              preference, 1, &result, &found));
  if (found == 0)
    fail_runtime("cuBLAS has no algorithm for a product of {} x {} x {} within {} bytes of workspace", args.rows,
                 args.columns, args.inner, args.workspace_limit);
  algorithm_ = result.algo;
  workspace_bytes_ = result.workspaceSize;
}

void CublasMatmul::run(const Operands& operands) {
  const float one = 1;
  const float zero = 0;
  if (bias_) set(description_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  TRIFOLD_CUDA(cublasLtMatmul(device_.cublas(), description_.get(), &one, operands.a, a_.get(), operands.b, b_.get(),
                              &zero, operands.d, d_.get(), operands.d, d_.get(), &algorithm_, operands.workspace,
                              workspace_bytes_, device_.compute()));
}

}  // namespace trifold::cuda
