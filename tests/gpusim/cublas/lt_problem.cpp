#include "cublas/lt_problem.h"

#include <algorithm>

namespace gpusim {
namespace {

constexpr std::uint64_t kSplits = 4;  // of k, each with its own partial result in the workspace

struct NamedLayout {
  const char* name = "";
  const LtLayout* layout = nullptr;
};

cublasStatus_t check_layout(const std::string& function, const NamedLayout& named) {
  const std::string matrix = function + ": the layout of " + named.name;
  if (!named.layout) return refuse(CUBLAS_STATUS_INVALID_VALUE, matrix + " is null, unset or destroyed");
  const auto& layout = *named.layout;
  if (!element_of(static_cast<cudaDataType>(layout.type))) {
    return not_simulated(matrix + " has type " + name_of(static_cast<cudaDataType>(layout.type)));
  }
  if (layout.order != CUBLASLT_ORDER_COL && layout.order != CUBLASLT_ORDER_ROW) {
    return not_simulated(matrix + " has order " + std::to_string(layout.order));
  }
  if (layout.plane_offset != 0) return not_simulated(matrix + " has a plane offset");
  if (layout.batches < 1) return refuse(CUBLAS_STATUS_INVALID_VALUE, matrix + " has no batches");
  const bool by_columns = layout.order == CUBLASLT_ORDER_COL;
  const auto inner = static_cast<std::int64_t>(by_columns ? layout.rows : layout.cols);
  if (layout.leading < std::max<std::int64_t>(inner, 1)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, matrix + " has the leading dimension " + std::to_string(layout.leading) +
                                                   ", less than its " + std::to_string(inner) +
                                                   (by_columns ? " rows" : " columns"));
  }
  return CUBLAS_STATUS_SUCCESS;
}

DeviceMatrix matrix_of(const LtLayout& layout, bool transposed) {
  const bool rows_adjacent = (layout.order == CUBLASLT_ORDER_COL) != transposed;
  return {.type = *element_of(static_cast<cudaDataType>(layout.type)),
          .row_stride = rows_adjacent ? 1 : layout.leading,
          .col_stride = rows_adjacent ? layout.leading : 1,
          .batch_stride = layout.batch_stride};
}

std::string size_of(std::uint64_t rows, std::uint64_t cols) {
  return std::to_string(rows) + " x " + std::to_string(cols);
}

cublasStatus_t check_sizes(const std::string& function, const LtMatmulDesc& desc, const NamedLayout (&layouts)[4],
                           Matmul& matmul) {
  const bool transa = desc.transa != CUBLAS_OP_N;
  const bool transb = desc.transb != CUBLAS_OP_N;
  const auto& [a, b, c, d] = layouts;
  const std::uint64_t m = transa ? a.layout->cols : a.layout->rows;
  const std::uint64_t k = transa ? a.layout->rows : a.layout->cols;
  const std::uint64_t b_rows = transb ? b.layout->cols : b.layout->rows;
  const std::uint64_t n = transb ? b.layout->rows : b.layout->cols;
  if (b_rows != k) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE,
                  function + ": op(A) is " + size_of(m, k) + ", op(B) is " + size_of(b_rows, n));
  }
  for (const auto& result : {c, d}) {
    if (result.layout->rows != m || result.layout->cols != n) {
      return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": " + result.name + " is " +
                                                     size_of(result.layout->rows, result.layout->cols) +
                                                     ", the product " + size_of(m, n));
    }
  }
  for (const auto& each : layouts) {
    if (each.layout->batches != d.layout->batches) {
      return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": " + each.name + " has " +
                                                     std::to_string(each.layout->batches) + " batches, D has " +
                                                     std::to_string(d.layout->batches));
    }
  }
  matmul.m = static_cast<std::int64_t>(m);
  matmul.n = static_cast<std::int64_t>(n);
  matmul.k = static_cast<std::int64_t>(k);
  matmul.batches = d.layout->batches;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_types(const std::string& function, const LtMatmulDesc& desc, Matmul& matmul) {
  switch (desc.compute_type) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_TF32:  // neither TF32 nor bf16 is in the simulated device's tensor cores
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      break;
    case CUBLAS_COMPUTE_32F_FAST_16F:
      matmul.inputs_narrowed_to_f16 = true;
      break;
    default:
      return not_simulated(function + ": compute type " + std::to_string(desc.compute_type));
  }
  if (desc.scale_type != CUDA_R_32F) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, function + ": alpha and beta of a float product are f32, not " +
                                                   name_of(static_cast<cudaDataType>(desc.scale_type)));
  }
  if (matmul.c.type != matmul.d.type || !types_fit(matmul.a.type, matmul.b.type, matmul.d.type)) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, function + ": no product of " + name_of(matmul.a.type) + " and " +
                                                   name_of(matmul.b.type) + " with C of " + name_of(matmul.c.type) +
                                                   " gives D of " + name_of(matmul.d.type));
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t take_epilogue(const std::string& function, const LtMatmulDesc& desc, const LtLayout& d, Matmul& matmul) {
  auto& epilogue = matmul.epilogue;
  switch (desc.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      break;
    case CUBLASLT_EPILOGUE_RELU:
      epilogue = {.activation = Activation::relu, .bias_use = BiasUse::none};
      break;
    case CUBLASLT_EPILOGUE_GELU:
      epilogue = {.activation = Activation::gelu, .bias_use = BiasUse::none};
      break;
    case CUBLASLT_EPILOGUE_BIAS:
      epilogue = {.activation = Activation::none, .bias_use = BiasUse::add};
      break;
    case CUBLASLT_EPILOGUE_RELU_BIAS:
      epilogue = {.activation = Activation::relu, .bias_use = BiasUse::add};
      break;
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      epilogue = {.activation = Activation::gelu, .bias_use = BiasUse::add};
      break;
    case CUBLASLT_EPILOGUE_BGRADA:
      epilogue = {.activation = Activation::none, .bias_use = BiasUse::gradient_of_a};
      break;
    case CUBLASLT_EPILOGUE_BGRADB:
      epilogue = {.activation = Activation::none, .bias_use = BiasUse::gradient_of_b};
      break;
    default:
      return not_simulated(function + ": epilogue " + std::to_string(desc.epilogue));
  }
  if (epilogue.bias_use == BiasUse::none) return CUBLAS_STATUS_SUCCESS;
  epilogue.bias = desc.bias;
  epilogue.bias_batch_stride = desc.bias_batch_stride;
  if (desc.bias_type != -1 && desc.bias_type != d.type) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, function + ": the bias has type " +
                                                   name_of(static_cast<cudaDataType>(desc.bias_type)) + ", D has " +
                                                   name_of(static_cast<cudaDataType>(d.type)));
  }
  if (d.order != CUBLASLT_ORDER_COL) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, function + ": epilogues with a bias want D in column order");
  }
  return CUBLAS_STATUS_SUCCESS;
}

bool is_operation(std::int32_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

cublasStatus_t check_desc(const std::string& function, const LtMatmulDesc* desc) {
  if (!desc) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": the matmul descriptor is null, unset or destroyed");
  }
  if (!is_operation(desc->transa) || !is_operation(desc->transb)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": no such operation on a matrix");
  }
  if (desc->transc != CUBLAS_OP_N) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, function + ": C cannot be transposed");
  if (desc->fill_mode != CUBLAS_FILL_MODE_FULL) return not_simulated(function + ": a fill mode");
  if (desc->pointer_mode != CUBLASLT_POINTER_MODE_HOST && desc->pointer_mode != CUBLASLT_POINTER_MODE_DEVICE) {
    return not_simulated(function + ": pointer mode " + std::to_string(desc->pointer_mode));
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t describe(const std::string& function, const LtArgs& args, LtProblem& problem) {
  const auto* desc = descriptor<LtMatmulDesc>(args.desc);
  if (const auto status = check_desc(function, desc)) return status;
  const NamedLayout layouts[4] = {{"A", descriptor<LtLayout>(args.a)},
                                  {"B", descriptor<LtLayout>(args.b)},
                                  {"C", descriptor<LtLayout>(args.c)},
                                  {"D", descriptor<LtLayout>(args.d)}};
  for (const auto& each : layouts) {
    if (const auto status = check_layout(function, each)) return status;
  }
  auto& matmul = problem.matmul;
  matmul.function = function;
  if (const auto status = check_sizes(function, *desc, layouts, matmul)) return status;
  matmul.a = matrix_of(*layouts[0].layout, desc->transa != CUBLAS_OP_N);
  matmul.b = matrix_of(*layouts[1].layout, desc->transb != CUBLAS_OP_N);
  matmul.c = matrix_of(*layouts[2].layout, false);
  matmul.d = matrix_of(*layouts[3].layout, false);
  if (layouts[2].layout->order != layouts[3].layout->order) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, function + ": C and D have different orders");
  }
  if (const auto status = check_types(function, *desc, matmul)) return status;
  if (const auto status = take_epilogue(function, *desc, *layouts[3].layout, matmul)) return status;
  problem.signature = 0;
  for (const auto& each : layouts) {
    problem.signature =
        problem.signature << 8 | static_cast<std::uint64_t>(each.layout->type << 1 | each.layout->order);
  }
  problem.signature = problem.signature << 2 | static_cast<std::uint64_t>(desc->transa != CUBLAS_OP_N) << 1 |
                      static_cast<std::uint64_t>(desc->transb != CUBLAS_OP_N);
  problem.signature = problem.signature << 16 | desc->epilogue;
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t workspace_bytes(const LtProblem& problem, LtAlgorithm algorithm) {
  const auto& matmul = problem.matmul;
  if (algorithm == LtAlgorithm::one_pass) return 0;
  return kSplits * sizeof(float) * static_cast<std::size_t>(matmul.m * matmul.n * matmul.batches);
}

}  // namespace gpusim
