// Streams, host functions in them, and waiting for them.
#include <algorithm>

#include <cuda_runtime_api.h>

#include "cudart/api_call.h"
#include "cudart/device_model.h"

using namespace gpusim;

namespace {

// Sets call.error when the stream captures: what would wait for it can never come.
bool accept_wait(ApiCall& call, CUstream_st& stream) {
  if (stream.seat.capture) {
    call.refuse(*refuse_and_invalidate(stream, CaptureError::unsupported,
                                       "the stream captures: nothing of it runs; the capture is invalid"));
    return false;
  }
  if (const auto refusal = admit_to_stream(stream)) {
    call.refuse(*refusal);
    return false;
  }
  return true;
}

cudaError_t create(ApiCall& call, cudaStream_t* stream, unsigned flags, int priority) {
  if (const auto lost = call.device_lost()) return *lost;
  if (!stream || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) {
    return call.refuse(cudaErrorInvalidValue, "null pointer or unknown flags");
  }
  *stream = create_stream({.device = current_device(),
                           .blocking = (flags & cudaStreamNonBlocking) == 0,
                           .flags = flags,
                           .priority = std::clamp(priority, kGreatestStreamPriority, 0)});
  return cudaSuccess;
}

cudaError_t enqueue_host_function(ApiCall& call, cudaStream_t stream, std::function<void()> body) {
  if (const auto lost = call.device_lost()) return *lost;
  if (!call.stream_for_work(stream)) return call.error;
  enqueue(stream, {.what = call.name(),
                   .run = [body = std::move(body)] { without_lock(body); },
                   .kind = WorkKind::host_function,
                   .cost_ns = 1000});
  return cudaSuccess;
}

}  // namespace

GPUSIM_API cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  ApiCall call("cudaStreamCreate");
  return create(call, stream, 0, 0);
}
GPUSIM_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  ApiCall call("cudaStreamCreateWithFlags");
  return create(call, stream, flags, 0);
}
GPUSIM_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  ApiCall call("cudaStreamCreateWithPriority");
  return create(call, stream, flags, priority);
}

GPUSIM_API cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  ApiCall call("cudaStreamDestroy");
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
    return call.refuse(cudaErrorInvalidResourceHandle, "a default stream cannot be destroyed");
  }
  CUstream_st* stream = call.stream(handle);
  if (!stream) return call.error;
  if (stream->seat.capture) {
    return call.refuse(
        *refuse_and_invalidate(*stream, CaptureError::unsupported, "the stream captures; the capture is invalid"));
  }
  destroy_stream(*stream);  // what is enqueued still runs
  return call.done();
}

GPUSIM_API cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  ApiCall call("cudaStreamSynchronize");
  CUstream_st* stream = call.stream(handle);
  if (!stream || !accept_wait(call, *stream)) return call.error;
  wait_on_host(clock_of(*stream));
  return call.done();
}
GPUSIM_API cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
  return cudaStreamSynchronize(per_thread(stream));
}

GPUSIM_API cudaError_t cudaStreamQuery(cudaStream_t handle) {
  ApiCall call("cudaStreamQuery");
  CUstream_st* stream = call.stream(handle);
  if (!stream || !accept_wait(call, *stream)) return call.error;
  const Clock& clock = clock_of(*stream);
  if (!is_done(clock)) {
    run_one_of(clock);  // so that a loop of queries ends
    return call.device_lost() ? call.error : cudaErrorNotReady;
  }
  host_knows(clock);
  return call.done();
}
GPUSIM_API cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) {
  return cudaStreamQuery(per_thread(stream));
}

GPUSIM_API cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned flags) {
  ApiCall call("cudaStreamWaitEvent");
  if (flags != cudaEventWaitDefault) return call.unsupported("flags " + std::to_string(flags));
  CUstream_st* stream = call.stream(handle);
  if (!stream) return call.error;
  CUevent_st* event = call.event(event_handle);
  if (!event) return call.error;
  if (const auto refusal = wait_for(*stream, *event)) return call.refuse(*refusal);
  return call.done();
}
GPUSIM_API cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return cudaStreamWaitEvent(per_thread(stream), event, flags);
}

GPUSIM_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  ApiCall call("cudaLaunchHostFunc");
  if (!function) return call.refuse(cudaErrorInvalidValue, "null function");
  return enqueue_host_function(call, stream, [=] { function(data); });
}
GPUSIM_API cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return cudaLaunchHostFunc(per_thread(stream), function, data);
}

GPUSIM_API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned) {
  ApiCall call("cudaStreamAddCallback");
  if (!callback) return call.refuse(cudaErrorInvalidValue, "null callback");
  return enqueue_host_function(call, stream, [=] { callback(stream, cudaSuccess, data); });
}

GPUSIM_API cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  ApiCall call("cudaStreamGetFlags");
  CUstream_st* stream = call.stream(handle);
  if (!stream) return call.error;
  *flags = stream->flags;
  return call.done();
}
GPUSIM_API cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  ApiCall call("cudaStreamGetPriority");
  CUstream_st* stream = call.stream(handle);
  if (!stream) return call.error;
  *priority = stream->priority;
  return call.done();
}
GPUSIM_API cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  ApiCall call("cudaStreamGetId");
  CUstream_st* stream = call.stream(handle);
  if (!stream) return call.error;
  *id = stream->id;
  return call.done();
}
GPUSIM_API cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  ApiCall call("cudaStreamGetDevice");
  CUstream_st* stream = call.stream(handle);
  if (!stream) return call.error;
  *device = stream->device;
  return call.done();
}
GPUSIM_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  ApiCall call("cudaDeviceGetStreamPriorityRange");
  if (least) *least = 0;
  if (greatest) *greatest = kGreatestStreamPriority;
  return call.done();
}
