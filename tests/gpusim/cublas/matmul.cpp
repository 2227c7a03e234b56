#include "cublas/matmul.h"

#include <algorithm>
#include <cmath>

#include "cublas/float_gemm.h"

namespace gpusim {
namespace {

StridedShape shape_of(const DeviceMatrix& matrix, std::int64_t batches, std::int64_t rows, std::int64_t cols) {
  return {.dims = {1, 1, batches, rows, cols},
          .strides = {0, 0, matrix.batch_stride, matrix.row_stride, matrix.col_stride}};
}

std::vector<float> read_input(const Matmul& matmul, const DeviceMatrix& matrix, std::int64_t rows, std::int64_t cols,
                              const char* what) {
  auto values = read_packed(matrix.data, matrix.type, shape_of(matrix, matmul.batches, rows, cols), what);
  if (matmul.inputs_narrowed_to_f16) {
    for (auto& value : values) value = rounded_to(Element::f16, value);
  }
  return values;
}

std::optional<float> value_of(const Scalar& scalar, const char* what) {
  if (!scalar.device_pointer) return scalar.value;
  const void* view = map_for_read(scalar.device_pointer, sizeof(float), what);
  if (!view) return std::nullopt;
  float value = 0;
  std::memcpy(&value, view, sizeof value);
  return value;
}

float activated(Activation activation, float value) {
  switch (activation) {
    case Activation::none:
      return value;
    case Activation::relu:
      return value > 0 || std::isnan(value) ? value : 0;
    case Activation::gelu: {  // the tanh form, which cuBLASLt computes
      const float inner = 0.7978845608F * (value + 0.044715F * value * value * value);
      return 0.5F * value * (1 + std::tanh(inner));
    }
  }
  return value;
}

// Sums of a over k for each row, or of b over k for each column, of all batches.
std::vector<float> bias_gradient(const Matmul& matmul, const std::vector<float>& a, const std::vector<float>& b) {
  const auto m = static_cast<std::size_t>(matmul.m);
  const auto n = static_cast<std::size_t>(matmul.n);
  const auto k = static_cast<std::size_t>(matmul.k);
  const bool of_a = matmul.epilogue.bias_use == BiasUse::gradient_of_a;
  const std::size_t length = of_a ? m : n;
  std::vector<float> sums(static_cast<std::size_t>(matmul.batches) * length);
  for (std::size_t batch = 0; batch < static_cast<std::size_t>(matmul.batches); ++batch) {
    float* sum = sums.data() + batch * length;
    if (of_a) {
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t l = 0; l < k; ++l) sum[i] += a[(batch * m + i) * k + l];
      }
    } else {
      for (std::size_t l = 0; l < k; ++l) {
        for (std::size_t j = 0; j < n; ++j) sum[j] += b[(batch * k + l) * n + j];
      }
    }
  }
  return sums;
}

StridedShape bias_shape(const Matmul& matmul) {
  const bool by_column = matmul.epilogue.bias_use == BiasUse::gradient_of_b;
  return {.dims = {1, 1, 1, matmul.batches, by_column ? matmul.n : matmul.m},
          .strides = {0, 0, 0, matmul.epilogue.bias_batch_stride, 1}};
}

void run_matmul(const Matmul& matmul) {
  const auto alpha = value_of(matmul.alpha, "alpha");
  const auto beta = value_of(matmul.beta, "beta");
  if (!alpha || !beta) return;
  if (!scribble(matmul.workspace, matmul.workspace_bytes, "workspace")) return;
  const auto m = static_cast<std::size_t>(matmul.m);
  const auto n = static_cast<std::size_t>(matmul.n);
  const auto k = static_cast<std::size_t>(matmul.k);
  const auto batches = static_cast<std::size_t>(matmul.batches);
  std::vector<float> result(batches * m * n);
  std::vector<float> a;
  std::vector<float> b;
  const bool gradient =
      matmul.epilogue.bias_use == BiasUse::gradient_of_a || matmul.epilogue.bias_use == BiasUse::gradient_of_b;
  if (k > 0 && (*alpha != 0 || gradient)) {
    a = read_input(matmul, matmul.a, matmul.m, matmul.k, "matrix A");
    b = read_input(matmul, matmul.b, matmul.k, matmul.n, "matrix B");
    if (a.empty() || b.empty()) return;
    for (std::size_t batch = 0; batch < batches; ++batch) {
      accumulate_product({m, n, k}, {a.data() + batch * m * k, k, 1}, {b.data() + batch * k * n, n, 1},
                         result.data() + batch * m * n);
    }
    if (*alpha != 1) {
      for (auto& value : result) value *= *alpha;
    }
  }
  if (*beta != 0) {
    const auto c =
        read_packed(matmul.c.data, matmul.c.type, shape_of(matmul.c, matmul.batches, matmul.m, matmul.n), "matrix C");
    if (c.empty()) return;
    for (std::size_t i = 0; i < result.size(); ++i) result[i] += *beta * c[i];
  }
  const auto& epilogue = matmul.epilogue;
  if (epilogue.bias_use == BiasUse::add) {
    const auto bias = read_packed(epilogue.bias, matmul.d.type, bias_shape(matmul), "bias");
    if (bias.empty()) return;
    for (std::size_t row = 0; row < batches * m; ++row) {
      for (std::size_t j = 0; j < n; ++j) result[row * n + j] += bias[row];
    }
  }
  if (epilogue.activation != Activation::none) {
    for (auto& value : result) value = activated(epilogue.activation, value);
  }
  if (!write_packed(matmul.d.data, matmul.d.type, shape_of(matmul.d, matmul.batches, matmul.m, matmul.n), result, {},
                    "matrix D")) {
    return;
  }
  if (gradient) {
    write_packed(epilogue.bias, matmul.d.type, bias_shape(matmul), bias_gradient(matmul, a, b), {}, "bias gradient");
  }
}

// On a device with 8 TFLOP/s in float, 32 in f16, and 300 GB/s.
std::uint64_t cost_ns(const Matmul& matmul) {
  const double flops = 2.0 * static_cast<double>(matmul.m) * static_cast<double>(matmul.n) *
                       static_cast<double>(matmul.k) * static_cast<double>(matmul.batches);
  const double elements = static_cast<double>(matmul.batches) *
                          static_cast<double>(matmul.m * matmul.k + matmul.k * matmul.n + 2 * matmul.m * matmul.n);
  const double bytes = elements * static_cast<double>(bytes_of(matmul.a.type));
  const double flops_per_ns = matmul.a.type == Element::f32 ? 8000 : 32000;
  return static_cast<std::uint64_t>(3000 + std::max(flops / flops_per_ns, bytes / 300));
}

}  // namespace

cublasStatus_t enqueue_matmul(const BlasHandle& handle, StreamHandle stream, Matmul matmul) {
  if (matmul.m == 0 || matmul.n == 0 || matmul.batches == 0) return CUBLAS_STATUS_SUCCESS;
  const std::string function = matmul.function;
  if (shape_of(matmul.d, matmul.batches, matmul.m, matmul.n).overlaps_itself()) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": the batches or columns of the result overlap");
  }
  const std::uint64_t cost = cost_ns(matmul);
  std::string what = function + " " + std::to_string(matmul.m) + "x" + std::to_string(matmul.n) + "x" +
                     std::to_string(matmul.k) + " " + name_of(matmul.a.type) + " to " + name_of(matmul.d.type);
  if (matmul.batches != 1) what += ", " + std::to_string(matmul.batches) + " batches";
  const int reports_before = report_count();
  const OperationId id =
      enqueue(stream, {.what = what, .run = [matmul = std::move(matmul)] { run_matmul(matmul); }, .cost_ns = cost});
  if (id == 0 && report_count() != reports_before) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (id != 0 && operation(id)->device != handle.device) {
    return refuse(CUBLAS_STATUS_EXECUTION_FAILED, function + ": the stream belongs to device " +
                                                      std::to_string(operation(id)->device) +
                                                      ", the handle to device " + std::to_string(handle.device));
  }
  return CUBLAS_STATUS_SUCCESS;
}

std::optional<Element> element_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F:
      return Element::f32;
    case CUDA_R_16F:
      return Element::f16;
    case CUDA_R_16BF:
      return Element::bf16;
    default:
      return std::nullopt;
  }
}

std::string name_of(cudaDataType type) {
  const auto element = element_of(type);
  return element ? name_of(*element) : "cudaDataType " + std::to_string(static_cast<int>(type));
}

bool types_fit(Element a, Element b, Element d) {
  return a == b && (d == a || d == Element::f32);
}

cublasStatus_t check_alignment(const std::string& function, const char* matrix, const void* pointer, Element type) {
  if (reinterpret_cast<Address>(pointer) % bytes_of(type) == 0) return CUBLAS_STATUS_SUCCESS;
  report(Finding::misaligned, function + ": matrix " + matrix + " at " + hex(reinterpret_cast<Address>(pointer)) +
                                  " is not aligned to its elements (" + name_of(type) + ")");
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t take_scalar(const std::string& function, const char* name, const void* pointer, bool on_device,
                           Scalar& scalar) {
  if (!pointer) return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": " + name + " is null");
  if (is_device_pointer(pointer) != on_device) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": " + name + " is a " + (on_device ? "host" : "device") +
                                                   " pointer, but the pointer mode says " +
                                                   (on_device ? "device" : "host"));
  }
  if (on_device) {
    scalar.device_pointer = pointer;
  } else {
    std::memcpy(&scalar.value, pointer, sizeof scalar.value);
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace gpusim
