#include "engine/events.h"

#include <unordered_set>

namespace gpusim {
namespace {

std::unordered_set<EventHandle>& events() {
  static auto* all = new std::unordered_set<EventHandle>;
  return *all;
}

}  // namespace

EventHandle create_event(int device, unsigned flags, bool timing) {
  auto* event = new CUevent_st;
  event->device = device;
  event->flags = flags;
  event->timing = timing;
  events().insert(event);
  return event;
}

CUevent_st* find_event(EventHandle handle) {
  return events().contains(handle) && handle->alive ? handle : nullptr;
}

void destroy_event(CUevent_st& event) {
  event.alive = false;
  event.clock = {};
  event.nodes = {};
}

void record(CUevent_st& event, CUstream_st& stream) {
  event.recorded = true;
  event.captured = stream.seat.capture != nullptr;
  event.capture = stream.seat.capture;
  event.nodes = stream.seat.tail;
  if (event.captured) return;
  event.clock = clock_of(stream);
  join(event.clock, known_to_hosts());  // it is not reached before the host has come this far
}

std::optional<CaptureRefusal> wait_for(CUstream_st& stream, CUevent_st& event) {
  if (!event.recorded) return std::nullopt;
  if (event.captured) return wait_in_capture(stream, event.capture.lock(), event.nodes);
  if (stream.seat.capture) {
    return refuse_and_invalidate(stream, CaptureError::isolation,
                                 "a capturing stream waits for an event that was recorded outside of the capture");
  }
  join(stream.clock, event.clock);
  return std::nullopt;
}

}  // namespace gpusim
