#include "cudart/api_call.h"

#include <cstdlib>

#include "engine/device_faults.h"

namespace gpusim {
namespace {

cudaError_t error_code_of(CaptureError error) {
  switch (error) {
    case CaptureError::unsupported:
      return cudaErrorStreamCaptureUnsupported;
    case CaptureError::invalidated:
      return cudaErrorStreamCaptureInvalidated;
    case CaptureError::merge:
      return cudaErrorStreamCaptureMerge;
    case CaptureError::unmatched:
      return cudaErrorStreamCaptureUnmatched;
    case CaptureError::unjoined:
      return cudaErrorStreamCaptureUnjoined;
    case CaptureError::isolation:
      return cudaErrorStreamCaptureIsolation;
    case CaptureError::implicit:
      return cudaErrorStreamCaptureImplicit;
    case CaptureError::captured_event:
      return cudaErrorCapturedEvent;
    case CaptureError::wrong_thread:
      return cudaErrorStreamCaptureWrongThread;
  }
  return cudaErrorUnknown;
}

}  // namespace

cudaError_t error_code_of(Finding fault) {
  switch (fault) {
    case Finding::misaligned:
      return cudaErrorMisalignedAddress;
    case Finding::divergent_barrier:
    case Finding::unsupported:
      return cudaErrorLaunchFailure;
    case Finding::deadlock:
      return cudaErrorLaunchTimeout;
    default:
      return cudaErrorIllegalAddress;
  }
}

ApiCall::ApiCall(const char* name) : lock_(simulator_lock()), name_(name) {
  device_count();  // sets the simulator up at the first call
  if (in_host_function()) {
    report(Finding::invalid_call, std::string(name) + ": a host function of a stream must not call the CUDA runtime");
  }
}

cudaError_t ApiCall::done() {
  if (const auto lost = device_lost()) return *lost;
  return cudaSuccess;
}

cudaError_t ApiCall::fail(cudaError_t code) {
  set_last_error(code);
  return error = code;
}

cudaError_t ApiCall::refuse(cudaError_t code, std::string_view text, Finding finding) {
  report(finding, std::string(name_) + ": " + std::string(text));
  return fail(code);
}

cudaError_t ApiCall::refuse(const CaptureRefusal& refusal) {
  // What comes after an error that was reported already needs no report of its own.
  if (refusal.error == CaptureError::invalidated) return fail(cudaErrorStreamCaptureInvalidated);
  return refuse(error_code_of(refusal.error), refusal.text);
}

cudaError_t ApiCall::unsupported(std::string_view text) {
  return refuse(cudaErrorNotSupported, text, Finding::unsupported);
}

std::optional<cudaError_t> ApiCall::device_lost() {
  if (device_count() == 0) return fail(cudaErrorNoDevice);
  const auto fault = fault_of(current_device());
  if (!fault) return std::nullopt;
  return fail(error_code_of(*fault));
}

std::optional<cudaError_t> ApiCall::forbidden_in_capture() {
  const auto refusal = admit_unsafe_call();
  if (!refusal) return std::nullopt;
  return refuse(*refusal);
}

CUstream_st* ApiCall::stream(cudaStream_t handle) {
  if (device_count() == 0) {
    fail(cudaErrorNoDevice);
    return nullptr;
  }
  CUstream_st* found = find_stream(handle);
  if (!found) refuse(cudaErrorInvalidResourceHandle, "the stream was destroyed or never made");
  return found;
}

CUstream_st* ApiCall::stream_for_work(cudaStream_t handle) {
  CUstream_st* found = stream(handle);
  if (!found) return nullptr;
  if (const auto refusal = admit_to_stream(*found)) {
    refuse(*refusal);
    return nullptr;
  }
  return found;
}

CUevent_st* ApiCall::event(cudaEvent_t handle) {
  CUevent_st* found = find_event(handle);
  if (!found) refuse(cudaErrorInvalidResourceHandle, "the event was destroyed or never made");
  return found;
}

bool is_strict() {
  static const bool strict = [] {
    const char* text = std::getenv("GPUSIM_STRICT");
    return text && *text == '1';
  }();
  return strict;
}

}  // namespace gpusim
