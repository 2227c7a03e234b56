// The handle of cuBLAS and cuBLASLt, which accept each other's. Handles are never freed, so the use of a destroyed one
// is seen; every refusal is both the status the real library returns and a report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <cublas_api.h>

#include "engine/library.h"

namespace gpusim {

struct BlasHandle {
  static constexpr std::uint64_t kAlive = 0x6770757362'6c6173;
  static constexpr std::uint64_t kDestroyed = 0x64656164'6c6173;
  std::uint64_t state = kAlive;
  int device = 0;  // current when it was made; it serves no other
  StreamHandle stream = nullptr;
  void* workspace = nullptr;  // the caller's own; null: the library's pool
  std::size_t workspace_bytes = 0;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
};

// Reports and returns `status`: the arguments are ones the real library refuses.
inline cublasStatus_t refuse(cublasStatus_t status, const std::string& text) {
  report(Finding::invalid_call, text);
  return status;
}
// Reports what the simulator does not have.
inline cublasStatus_t not_simulated(const std::string& text) {
  report(Finding::unsupported, text);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

// CUBLAS_STATUS_SUCCESS when the handle is alive and belongs to the current device.
inline cublasStatus_t check_handle(const BlasHandle* handle, const char* function) {
  const std::string name = function;
  if (!handle) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, name + ": the handle is null");
  if (handle->state == BlasHandle::kDestroyed) {
    return refuse(CUBLAS_STATUS_NOT_INITIALIZED, name + ": the handle was destroyed");
  }
  if (handle->state != BlasHandle::kAlive) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, name + ": not a handle");
  if (handle->device != current_device()) {
    return refuse(CUBLAS_STATUS_EXECUTION_FAILED, name + ": the handle belongs to device " +
                                                      std::to_string(handle->device) + ", but device " +
                                                      std::to_string(current_device()) + " is current");
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace gpusim
