// d = epilogue(alpha * a * b + beta * c) on device memory, for cuBLAS and cuBLASLt alike. A Matmul has been checked; it
// is a value that can be run many times (graph replays).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cublas/handle.h"
#include "cublas/strided_memory.h"

namespace gpusim {

// A matrix as the product sees it: after transposition, in elements.
struct DeviceMatrix {
  void* data = nullptr;
  Element type = Element::f32;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 0;
  std::int64_t batch_stride = 0;
};

struct Scalar {  // read when the product runs if it lies on the device
  float value = 0;
  const void* device_pointer = nullptr;
};

enum class Activation { none, relu, gelu };
enum class BiasUse { none, add, gradient_of_a, gradient_of_b };

struct Epilogue {
  Activation activation = Activation::none;
  BiasUse bias_use = BiasUse::none;
  void* bias = nullptr;  // [rows of d] (gradient_of_b: [columns of d]) of d's type
  std::int64_t bias_batch_stride = 0;
};

struct Matmul {
  std::string function;  // of the API
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batches = 1;
  DeviceMatrix a = {};  // [m, k]
  DeviceMatrix b = {};  // [k, n]
  DeviceMatrix c = {};  // [m, n]; not looked at when beta is zero
  DeviceMatrix d = {};  // [m, n]
  Scalar alpha = {};
  Scalar beta = {};
  Epilogue epilogue = {};
  bool inputs_narrowed_to_f16 = false;  // CUBLAS_COMPUTE_32F_FAST_16F
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;  // that the algorithm scribbles over
};

// Enqueues it; the device of the stream has to be the handle's.
cublasStatus_t enqueue_matmul(const BlasHandle& handle, StreamHandle stream, Matmul matmul);

// A type of the API as an element type; nothing for those the simulator does not compute with.
std::optional<Element> element_of(cudaDataType type);
std::string name_of(cudaDataType type);

// Which (a, b) -> (c, d) types a product with CUBLAS_COMPUTE_32F takes.
bool types_fit(Element a, Element b, Element d);

// CUBLAS_STATUS_SUCCESS, or the refusal of an address that is not a multiple of the element size.
cublasStatus_t check_alignment(const std::string& function, const char* matrix, const void* pointer, Element type);

// What a scalar argument names. Refused: null, or host memory where the mode says device and the other way round.
cublasStatus_t take_scalar(const std::string& function, const char* name, const void* pointer, bool on_device,
                           Scalar& scalar);

}  // namespace gpusim
