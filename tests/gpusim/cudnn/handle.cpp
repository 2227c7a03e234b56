#include "cudnn/handle.h"

#include <algorithm>
#include <cstring>

namespace gpusim {
namespace {

thread_local std::string last_error = "no error";

}  // namespace

cudnnStatus_t refuse(cudnnStatus_t status, const std::string& text) {
  last_error = text;
  report(Finding::invalid_call, text);
  return status;
}

cudnnStatus_t not_simulated(const std::string& text) {
  last_error = text + " is not simulated";
  report(Finding::unsupported, text);
  return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t check_handle(const cudnnContext* handle, const char* function) {
  const std::string name = function;
  if (!handle) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, name + ": the handle is null");
  if (!handle->alive) return refuse(CUDNN_STATUS_NOT_INITIALIZED, name + ": the handle was destroyed");
  if (handle->device != current_device()) {
    return refuse(CUDNN_STATUS_EXECUTION_FAILED, name + ": the handle belongs to device " +
                                                     std::to_string(handle->device) + ", but device " +
                                                     std::to_string(current_device()) + " is current");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t enqueue_on(const cudnnContext& handle, Work work) {
  const std::string what = work.what;
  const int reports_before = report_count();
  const OperationId id = enqueue(handle.stream, std::move(work));
  if (id == 0) return report_count() == reports_before ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
  const int device = operation(id)->device;
  if (device != handle.device) {
    return refuse(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, what + ": the stream belongs to device " +
                                                              std::to_string(device) + ", the handle to device " +
                                                              std::to_string(handle.device));
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace gpusim

using gpusim::check_handle;
using gpusim::refuse;

GPUSIM_EXPORT std::size_t cudnnGetVersion() {
  return CUDNN_VERSION;
}
GPUSIM_EXPORT std::size_t cudnnGetMaxDeviceVersion() {
  return CUDNN_MAX_DEVICE_VERSION;
}
GPUSIM_EXPORT std::size_t cudnnGetCudartVersion() {
  return CUDART_VERSION;
}
GPUSIM_EXPORT cudnnStatus_t cudnnGraphVersionCheck() {
  return CUDNN_STATUS_SUCCESS;
}
GPUSIM_EXPORT cudnnStatus_t cudnnOpsVersionCheck() {
  return CUDNN_STATUS_SUCCESS;
}
GPUSIM_EXPORT cudnnStatus_t cudnnCnnVersionCheck() {
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  if (!value) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "cudnnGetProperty: the result pointer is null");
  switch (type) {
    case MAJOR_VERSION:
      *value = CUDNN_MAJOR;
      return CUDNN_STATUS_SUCCESS;
    case MINOR_VERSION:
      *value = CUDNN_MINOR;
      return CUDNN_STATUS_SUCCESS;
    case PATCH_LEVEL:
      *value = CUDNN_PATCHLEVEL;
      return CUDNN_STATUS_SUCCESS;
  }
  return refuse(CUDNN_STATUS_BAD_PARAM, "cudnnGetProperty: no such property");
}

GPUSIM_EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (!handle) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "cudnnCreate: the result pointer is null");
  *handle = new cudnnContext;
  (*handle)->device = gpusim::current_device();
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (const auto status = check_handle(handle, "cudnnDestroy")) return status;
  handle->alive = false;
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (const auto status = check_handle(handle, "cudnnSetStream")) return status;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  if (const auto status = check_handle(handle, "cudnnGetStream")) return status;
  if (!stream) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "cudnnGetStream: the result pointer is null");
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

GPUSIM_EXPORT void cudnnGetLastErrorString(char* message, std::size_t capacity) {
  if (!message || capacity == 0) return;
  const std::size_t bytes = std::min(gpusim::last_error.size(), capacity - 1);
  std::memcpy(message, gpusim::last_error.data(), bytes);
  message[bytes] = '\0';
}

GPUSIM_EXPORT const char* cudnnGetErrorString(cudnnStatus_t status) {
#define GPUSIM_STATUS(name) \
  case name:                \
    return #name
  switch (status) {
    GPUSIM_STATUS(CUDNN_STATUS_SUCCESS);
    GPUSIM_STATUS(CUDNN_STATUS_NOT_INITIALIZED);
    GPUSIM_STATUS(CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH);
    GPUSIM_STATUS(CUDNN_STATUS_BAD_PARAM);
    GPUSIM_STATUS(CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    GPUSIM_STATUS(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    GPUSIM_STATUS(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    GPUSIM_STATUS(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
    GPUSIM_STATUS(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
    GPUSIM_STATUS(CUDNN_STATUS_NOT_SUPPORTED);
    GPUSIM_STATUS(CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    GPUSIM_STATUS(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    GPUSIM_STATUS(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
    GPUSIM_STATUS(CUDNN_STATUS_INTERNAL_ERROR);
    GPUSIM_STATUS(CUDNN_STATUS_ALLOC_FAILED);
    GPUSIM_STATUS(CUDNN_STATUS_EXECUTION_FAILED);
    default:
      break;
  }
#undef GPUSIM_STATUS
  // The specific error within a category has no text of its own here.
  switch (CUDNN_STATUS_CATEGORY(static_cast<int>(status))) {
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_INTERNAL_ERROR:
      return "CUDNN_STATUS_INTERNAL_ERROR";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_UNKNOWN_STATUS";
  }
}
