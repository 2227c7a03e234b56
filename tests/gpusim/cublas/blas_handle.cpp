// cublasCreate and the settings of a handle.
#include <cublas_v2.h>

#include "cublas/handle.h"
#include "cublas/status_names.h"

namespace gpusim {
namespace {

BlasHandle* of(cublasHandle_t handle) {
  return reinterpret_cast<BlasHandle*>(handle);
}

template <class Value>
cublasStatus_t get(cublasHandle_t handle, const char* function, const Value BlasHandle::*field, Value* out) {
  if (const auto status = check_handle(of(handle), function)) return status;
  if (!out) return refuse(CUBLAS_STATUS_INVALID_VALUE, std::string(function) + ": the result pointer is null");
  *out = of(handle)->*field;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace gpusim

using gpusim::BlasHandle;
using gpusim::check_handle;
using gpusim::refuse;

GPUSIM_EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (!handle) return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasCreate: the result pointer is null");
  auto* made = new BlasHandle;
  made->device = gpusim::current_device();
  *handle = reinterpret_cast<cublasHandle_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}

GPUSIM_EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (const auto status = check_handle(gpusim::of(handle), "cublasDestroy")) return status;
  gpusim::of(handle)->state = BlasHandle::kDestroyed;
  return CUBLAS_STATUS_SUCCESS;
}

GPUSIM_EXPORT cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int* version) {
  if (const auto status = check_handle(gpusim::of(handle), "cublasGetVersion")) return status;
  if (!version) return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasGetVersion: the result pointer is null");
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

GPUSIM_EXPORT cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  if (!value) return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasGetProperty: the result pointer is null");
  switch (type) {
    case MAJOR_VERSION:
      *value = CUBLAS_VER_MAJOR;
      return CUBLAS_STATUS_SUCCESS;
    case MINOR_VERSION:
      *value = CUBLAS_VER_MINOR;
      return CUBLAS_STATUS_SUCCESS;
    case PATCH_LEVEL:
      *value = CUBLAS_VER_PATCH;
      return CUBLAS_STATUS_SUCCESS;
  }
  return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasGetProperty: no such property");
}

// As the real library: setting a stream puts the workspace back to the library's own pool.
GPUSIM_EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (const auto status = check_handle(gpusim::of(handle), "cublasSetStream")) return status;
  gpusim::of(handle)->stream = stream;
  gpusim::of(handle)->workspace = nullptr;
  gpusim::of(handle)->workspace_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

GPUSIM_EXPORT cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  return gpusim::get(handle, "cublasGetStream", &BlasHandle::stream, stream);
}

GPUSIM_EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  constexpr gpusim::Address kAlignment = 256;
  if (const auto status = check_handle(gpusim::of(handle), "cublasSetWorkspace")) return status;
  if (!workspace && bytes != 0) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE,
                  "cublasSetWorkspace: a null workspace of " + std::to_string(bytes) + " bytes");
  }
  if (reinterpret_cast<gpusim::Address>(workspace) % kAlignment != 0) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasSetWorkspace: the workspace is not aligned to 256 bytes");
  }
  if (workspace && !gpusim::is_device_pointer(workspace)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasSetWorkspace: the workspace is not device memory");
  }
  gpusim::of(handle)->workspace = workspace;
  gpusim::of(handle)->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

GPUSIM_EXPORT cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  if (const auto status = check_handle(gpusim::of(handle), "cublasSetPointerMode")) return status;
  if (mode != CUBLAS_POINTER_MODE_HOST && mode != CUBLAS_POINTER_MODE_DEVICE) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasSetPointerMode: no such mode");
  }
  gpusim::of(handle)->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

GPUSIM_EXPORT cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  return gpusim::get(handle, "cublasGetPointerMode", &BlasHandle::pointer_mode, mode);
}

GPUSIM_EXPORT cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  if (const auto status = check_handle(gpusim::of(handle), "cublasSetAtomicsMode")) return status;
  if (mode != CUBLAS_ATOMICS_NOT_ALLOWED && mode != CUBLAS_ATOMICS_ALLOWED) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasSetAtomicsMode: no such mode");
  }
  gpusim::of(handle)->atomics_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

GPUSIM_EXPORT cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  return gpusim::get(handle, "cublasGetAtomicsMode", &BlasHandle::atomics_mode, mode);
}

// The simulated device has no TF32, so the modes that allow it change nothing.
GPUSIM_EXPORT cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (const auto status = check_handle(gpusim::of(handle), "cublasSetMathMode")) return status;
  const int kind = static_cast<int>(mode) & ~static_cast<int>(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  if (kind == CUBLAS_FP32_EMULATED_BF16X9_MATH || kind == CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH) {
    return gpusim::not_simulated("cublasSetMathMode: emulated floating point (mode " + std::to_string(kind) + ")");
  }
  if (kind < CUBLAS_DEFAULT_MATH || kind > CUBLAS_TF32_TENSOR_OP_MATH) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasSetMathMode: no such mode (" + std::to_string(kind) + ")");
  }
  gpusim::of(handle)->math_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

GPUSIM_EXPORT cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return gpusim::get(handle, "cublasGetMathMode", &BlasHandle::math_mode, mode);
}

GPUSIM_EXPORT const char* cublasGetStatusName(cublasStatus_t status) {
  return gpusim::name_of(status);
}
GPUSIM_EXPORT const char* cublasGetStatusString(cublasStatus_t status) {
  return gpusim::description_of(status);
}
