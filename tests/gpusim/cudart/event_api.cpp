// Events. Their times come from the simulated clock: the same program always measures the same.
#include <cuda_runtime_api.h>

#include "cudart/api_call.h"

using namespace gpusim;

namespace {

cudaError_t create(ApiCall& call, cudaEvent_t* event, unsigned flags) {
  if (const auto lost = call.device_lost()) return *lost;
  constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming;
  if (!event || (flags & ~kKnown) != 0) return call.refuse(cudaErrorInvalidValue, "null pointer or unknown flags");
  *event = create_event(current_device(), flags, (flags & cudaEventDisableTiming) == 0);
  return cudaSuccess;
}

// Null: refused, call.error is set. An event of a capture stands for nothing that ever happens.
CUevent_st* event_to_wait_for(ApiCall& call, cudaEvent_t handle) {
  CUevent_st* event = call.event(handle);
  if (!event || !event->captured) return event;
  if (const auto capture = event->capture.lock()) capture->invalidated = true;
  call.refuse(cudaErrorCapturedEvent, "the event was last recorded in a capture");
  return nullptr;
}

cudaError_t record_event(ApiCall& call, cudaEvent_t event_handle, cudaStream_t stream_handle) {
  if (const auto lost = call.device_lost()) return *lost;
  CUevent_st* event = call.event(event_handle);
  if (!event) return call.error;
  CUstream_st* stream = call.stream_for_work(stream_handle);
  if (!stream) return call.error;
  if (event->device != stream->device) {
    return call.refuse(cudaErrorInvalidResourceHandle, "the event belongs to device " + std::to_string(event->device) +
                                                           ", the stream to device " + std::to_string(stream->device));
  }
  record(*event, *stream);
  return cudaSuccess;
}

}  // namespace

GPUSIM_API cudaError_t cudaEventCreate(cudaEvent_t* event) {
  ApiCall call("cudaEventCreate");
  return create(call, event, 0);
}
GPUSIM_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  ApiCall call("cudaEventCreateWithFlags");
  return create(call, event, flags);
}
GPUSIM_API cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  ApiCall call("cudaEventDestroy");
  CUevent_st* event = call.event(handle);
  if (!event) return call.error;
  destroy_event(*event);
  return call.done();
}

GPUSIM_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  ApiCall call("cudaEventRecord");
  return record_event(call, event, stream);
}
GPUSIM_API cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecord(event, per_thread(stream));
}
GPUSIM_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  ApiCall call("cudaEventRecordWithFlags");
  if (flags != cudaEventRecordDefault) return call.unsupported("flags " + std::to_string(flags));
  return record_event(call, event, stream);
}

GPUSIM_API cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  ApiCall call("cudaEventSynchronize");
  CUevent_st* event = event_to_wait_for(call, handle);
  if (!event) return call.error;
  wait_on_host(event->clock);
  return call.done();
}

GPUSIM_API cudaError_t cudaEventQuery(cudaEvent_t handle) {
  ApiCall call("cudaEventQuery");
  CUevent_st* event = event_to_wait_for(call, handle);
  if (!event) return call.error;
  if (!is_done(event->clock)) {
    run_one_of(event->clock);  // so that a loop of queries ends
    return call.device_lost() ? call.error : cudaErrorNotReady;
  }
  host_knows(event->clock);
  return call.done();
}

GPUSIM_API cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin_handle, cudaEvent_t end_handle) {
  ApiCall call("cudaEventElapsedTime");
  CUevent_st* begin = event_to_wait_for(call, begin_handle);
  if (!begin) return call.error;
  CUevent_st* end = event_to_wait_for(call, end_handle);
  if (!end) return call.error;
  if (!begin->timing || !end->timing) {
    return call.refuse(cudaErrorInvalidResourceHandle, "an event was made with cudaEventDisableTiming");
  }
  if (!begin->recorded || !end->recorded) {
    return call.refuse(cudaErrorInvalidResourceHandle, "an event was never recorded");
  }
  if (!is_done(begin->clock) || !is_done(end->clock)) return call.fail(cudaErrorNotReady);
  const auto from = static_cast<double>(time_of(begin->clock));
  const auto to = static_cast<double>(time_of(end->clock));
  *milliseconds = static_cast<float>((to - from) / 1e6);
  return call.done();
}
