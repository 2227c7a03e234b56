// Last errors, one a thread, and their names.
#include <cuda_runtime_api.h>

#include "cudart/api_call.h"
#include "engine/device_faults.h"

using namespace gpusim;

namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;
};
#define GPUSIM_ERROR(code, text) \
  { code, #code, text }
// Everything the stand-ins return.
constexpr ErrorText kErrors[] = {
    GPUSIM_ERROR(cudaSuccess, "no error"),
    GPUSIM_ERROR(cudaErrorInvalidValue, "invalid argument"),
    GPUSIM_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    GPUSIM_ERROR(cudaErrorInitializationError, "initialization error"),
    GPUSIM_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    GPUSIM_ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    GPUSIM_ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    GPUSIM_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    GPUSIM_ERROR(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
    GPUSIM_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    GPUSIM_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    GPUSIM_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    GPUSIM_ERROR(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
    GPUSIM_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    GPUSIM_ERROR(cudaErrorNotReady, "device not ready"),
    GPUSIM_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    GPUSIM_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    GPUSIM_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    GPUSIM_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    GPUSIM_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    GPUSIM_ERROR(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    GPUSIM_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    GPUSIM_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    GPUSIM_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    GPUSIM_ERROR(cudaErrorNotSupported, "operation not supported"),
    GPUSIM_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    GPUSIM_ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    GPUSIM_ERROR(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    GPUSIM_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    GPUSIM_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    GPUSIM_ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    GPUSIM_ERROR(cudaErrorStreamCaptureImplicit,
                 "operation would make the legacy stream depend on a capturing blocking stream"),
    GPUSIM_ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    GPUSIM_ERROR(cudaErrorStreamCaptureWrongThread,
                 "attempt to terminate a thread-local capture sequence from another thread"),
    GPUSIM_ERROR(cudaErrorGraphExecUpdateFailure,
                 "the graph update was not performed because it included changes which violated constraints specific "
                 "to instantiated graph update"),
    GPUSIM_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef GPUSIM_ERROR

const ErrorText* find(cudaError_t code) {
  for (const auto& error : kErrors) {
    if (error.code == code) return &error;
  }
  return nullptr;
}

cudaError_t sticky_error() {
  const std::lock_guard lock(simulator_lock());
  const auto fault = fault_of(current_device());
  return fault ? error_code_of(*fault) : cudaSuccess;
}

}  // namespace

namespace gpusim {
void set_last_error(cudaError_t code) {
  last_error = code;
}
}  // namespace gpusim

GPUSIM_API cudaError_t cudaGetLastError() {
  const cudaError_t sticky = sticky_error();
  const cudaError_t error = sticky != cudaSuccess ? sticky : last_error;
  last_error = cudaSuccess;
  return error;
}

GPUSIM_API cudaError_t cudaPeekAtLastError() {
  const cudaError_t sticky = sticky_error();
  return sticky != cudaSuccess ? sticky : last_error;
}

GPUSIM_API const char* cudaGetErrorName(cudaError_t code) {
  const auto* error = find(code);
  return error ? error->name : "unrecognized error code";
}

GPUSIM_API const char* cudaGetErrorString(cudaError_t code) {
  const auto* error = find(code);
  return error ? error->text : "unrecognized error code";
}
