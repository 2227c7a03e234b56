// What every exported function does first: take the simulator's lock and know its own name for the reports. Its results
// become the thread's last error; the error of a lost device stays until cudaDeviceReset.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <cuda_runtime_api.h>

#include "engine/events.h"
#include "engine/graph_capture.h"
#include "engine/stream.h"

#define GPUSIM_API extern "C" __attribute__((visibility("default")))

namespace gpusim {

class ApiCall {
 public:
  explicit ApiCall(const char* name);

  // cudaSuccess, or the error of the current device when it is lost.
  cudaError_t done();
  // An outcome a correct program may meet (out of memory, not ready): no report.
  cudaError_t fail(cudaError_t code);
  // A mistake of the program: reported.
  cudaError_t refuse(cudaError_t code, std::string_view text, Finding finding = Finding::invalid_call);
  cudaError_t refuse(const CaptureRefusal& refusal);
  cudaError_t unsupported(std::string_view text);

  // Set when the call cannot go on; the function then returns it.
  std::optional<cudaError_t> device_lost();
  std::optional<cudaError_t> forbidden_in_capture();

  // The stream or event of a handle. Null: refused, and `error` is what to return.
  CUstream_st* stream(cudaStream_t handle);
  CUstream_st* stream_for_work(cudaStream_t handle);  // also checks that work may be enqueued there now
  CUevent_st* event(cudaEvent_t handle);
  cudaError_t error = cudaSuccess;

  const char* name() const { return name_; }

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  const char* name_;
};

cudaError_t error_code_of(Finding fault);
void set_last_error(cudaError_t code);

// For the _ptsz and _ptds functions, where the default stream is the thread's own.
inline cudaStream_t per_thread(cudaStream_t stream) {
  return stream ? stream : cudaStreamPerThread;
}

bool is_strict();  // GPUSIM_STRICT=1: judges by the letter of the documentation, not by what every driver does

}  // namespace gpusim
