// The matrix products of cuBLAS: all column-major, all one strided-batched product underneath.
#include <algorithm>

#include <cublas_v2.h>

#include "cublas/matmul.h"

namespace gpusim {
namespace {

// A product may scribble over this much of the caller's workspace.
constexpr std::size_t kWorkspaceUsedBytes = 64 << 10;

struct GemmMatrix {
  const char* name = "";
  const void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  std::int64_t leading = 0;
  std::int64_t batch_stride = 0;
};

struct GemmArgs {
  cublasHandle_t handle = nullptr;
  const char* function = "";
  cublasOperation_t transa = CUBLAS_OP_N;
  cublasOperation_t transb = CUBLAS_OP_N;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batches = 1;
  const void* alpha = nullptr;
  GemmMatrix a = {};
  GemmMatrix b = {};
  const void* beta = nullptr;
  GemmMatrix c = {};
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasGemmAlgo_t algo = CUBLAS_GEMM_DEFAULT;
};

bool is_operation(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

cublasStatus_t check_compute(const GemmArgs& args) {
  switch (args.compute) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_TF32:  // neither TF32 nor bf16 is in the simulated device's tensor cores
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_16F:
      return CUBLAS_STATUS_SUCCESS;
    default:
      return not_simulated(std::string(args.function) + ": compute type " +
                           std::to_string(static_cast<int>(args.compute)));
  }
}

cublasStatus_t check_algo(const GemmArgs& args) {
  if (args.algo == CUBLAS_GEMM_DEFAULT || args.algo == CUBLAS_GEMM_DEFAULT_TENSOR_OP) return CUBLAS_STATUS_SUCCESS;
  return not_simulated(std::string(args.function) + ": algorithm " + std::to_string(static_cast<int>(args.algo)));
}

// `rows` as stored, which the leading dimension has to hold.
cublasStatus_t take_matrix(const GemmArgs& args, const GemmMatrix& matrix, std::int64_t rows, bool transposed,
                           DeviceMatrix& out) {
  const std::string function = args.function;
  const auto type = element_of(matrix.type);
  if (!type) return not_simulated(function + ": matrix " + matrix.name + " of " + name_of(matrix.type));
  if (matrix.leading < std::max<std::int64_t>(1, rows)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": the leading dimension " + std::to_string(matrix.leading) +
                                                   " of matrix " + matrix.name + " is less than its " +
                                                   std::to_string(rows) + " rows");
  }
  if (const auto status = check_alignment(function, matrix.name, matrix.data, *type)) return status;
  out = {.data = const_cast<void*>(matrix.data),
         .type = *type,
         .row_stride = transposed ? matrix.leading : 1,
         .col_stride = transposed ? 1 : matrix.leading,
         .batch_stride = matrix.batch_stride};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t gemm(const GemmArgs& args) {
  const auto* handle = reinterpret_cast<const BlasHandle*>(args.handle);
  if (const auto status = check_handle(handle, args.function)) return status;
  const std::string function = args.function;
  if (args.m < 0 || args.n < 0 || args.k < 0 || args.batches < 0) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": a negative dimension");
  }
  if (!is_operation(args.transa) || !is_operation(args.transb)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": no such operation on a matrix");
  }
  if (const auto status = check_compute(args)) return status;
  if (const auto status = check_algo(args)) return status;
  const bool transa = args.transa != CUBLAS_OP_N;
  const bool transb = args.transb != CUBLAS_OP_N;
  Matmul matmul{.function = function, .m = args.m, .n = args.n, .k = args.k, .batches = args.batches};
  if (const auto status = take_matrix(args, args.a, transa ? args.k : args.m, transa, matmul.a)) return status;
  if (const auto status = take_matrix(args, args.b, transb ? args.n : args.k, transb, matmul.b)) return status;
  if (const auto status = take_matrix(args, args.c, args.m, false, matmul.c)) return status;
  if (!types_fit(matmul.a.type, matmul.b.type, matmul.c.type)) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, function + ": no product of " + name_of(args.a.type) + " and " +
                                                   name_of(args.b.type) + " gives " + name_of(args.c.type));
  }
  const bool on_device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  if (const auto status = take_scalar(function, "alpha", args.alpha, on_device, matmul.alpha)) return status;
  if (const auto status = take_scalar(function, "beta", args.beta, on_device, matmul.beta)) return status;
  matmul.d = matmul.c;
  matmul.inputs_narrowed_to_f16 = args.compute == CUBLAS_COMPUTE_32F_FAST_16F;
  matmul.workspace = handle->workspace;
  matmul.workspace_bytes = std::min(handle->workspace_bytes, kWorkspaceUsedBytes);
  return enqueue_matmul(*handle, handle->stream, std::move(matmul));
}

}  // namespace
}  // namespace gpusim

GPUSIM_EXPORT cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                            int m, int n, int k, const float* alpha, const float* A, int lda,
                                            const float* B, int ldb, const float* beta, float* C, int ldc) {
  return gpusim::gemm({.handle = handle,
                       .function = "cublasSgemm",
                       .transa = transa,
                       .transb = transb,
                       .m = m,
                       .n = n,
                       .k = k,
                       .alpha = alpha,
                       .a = {.name = "A", .data = A, .leading = lda},
                       .b = {.name = "B", .data = B, .leading = ldb},
                       .beta = beta,
                       .c = {.name = "C", .data = C, .leading = ldc}});
}

GPUSIM_EXPORT cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                                       cublasOperation_t transb, int m, int n, int k,
                                                       const float* alpha, const float* A, int lda, long long strideA,
                                                       const float* B, int ldb, long long strideB, const float* beta,
                                                       float* C, int ldc, long long strideC, int batches) {
  return gpusim::gemm({.handle = handle,
                       .function = "cublasSgemmStridedBatched",
                       .transa = transa,
                       .transb = transb,
                       .m = m,
                       .n = n,
                       .k = k,
                       .batches = batches,
                       .alpha = alpha,
                       .a = {.name = "A", .data = A, .leading = lda, .batch_stride = strideA},
                       .b = {.name = "B", .data = B, .leading = ldb, .batch_stride = strideB},
                       .beta = beta,
                       .c = {.name = "C", .data = C, .leading = ldc, .batch_stride = strideC}});
}

GPUSIM_EXPORT cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                          int m, int n, int k, const void* alpha, const void* A, cudaDataType Atype,
                                          int lda, const void* B, cudaDataType Btype, int ldb, const void* beta,
                                          void* C, cudaDataType Ctype, int ldc, cublasComputeType_t compute,
                                          cublasGemmAlgo_t algo) {
  return gpusim::gemm({.handle = handle,
                       .function = "cublasGemmEx",
                       .transa = transa,
                       .transb = transb,
                       .m = m,
                       .n = n,
                       .k = k,
                       .alpha = alpha,
                       .a = {.name = "A", .data = A, .type = Atype, .leading = lda},
                       .b = {.name = "B", .data = B, .type = Btype, .leading = ldb},
                       .beta = beta,
                       .c = {.name = "C", .data = C, .type = Ctype, .leading = ldc},
                       .compute = compute,
                       .algo = algo});
}

GPUSIM_EXPORT cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                                        cublasOperation_t transb, int m, int n, int k,
                                                        const void* alpha, const void* A, cudaDataType Atype, int lda,
                                                        long long int strideA, const void* B, cudaDataType Btype,
                                                        int ldb, long long int strideB, const void* beta, void* C,
                                                        cudaDataType Ctype, int ldc, long long int strideC, int batches,
                                                        cublasComputeType_t compute, cublasGemmAlgo_t algo) {
  return gpusim::gemm({.handle = handle,
                       .function = "cublasGemmStridedBatchedEx",
                       .transa = transa,
                       .transb = transb,
                       .m = m,
                       .n = n,
                       .k = k,
                       .batches = batches,
                       .alpha = alpha,
                       .a = {.name = "A", .data = A, .type = Atype, .leading = lda, .batch_stride = strideA},
                       .b = {.name = "B", .data = B, .type = Btype, .leading = ldb, .batch_stride = strideB},
                       .beta = beta,
                       .c = {.name = "C", .data = C, .type = Ctype, .leading = ldc, .batch_stride = strideC},
                       .compute = compute,
                       .algo = algo});
}
