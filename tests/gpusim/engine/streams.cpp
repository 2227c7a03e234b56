#include "engine/streams.h"

#include <cstdlib>
#include <unordered_set>

#include "engine/activity.h"
#include "engine/fault_handler.h"
#include "engine/stream.h"

namespace gpusim {
namespace {

thread_local int device_of_this_thread = 0;

struct Streams {
  std::unordered_set<StreamHandle> all;
  StreamHandle legacy[kMaxDevices] = {};
  unsigned long long next_id = 1;
};
Streams& streams() {
  static auto* one = new Streams;
  return *one;
}

CUstream_st& legacy_stream(int device) {
  auto& handle = streams().legacy[device];
  if (!handle) {
    handle = create_stream({.device = device});
    handle->legacy = true;
  }
  return *handle;
}

CUstream_st& per_thread_stream(int device) {
  thread_local StreamHandle handles[kMaxDevices] = {};
  if (!handles[device] || !handles[device]->alive) handles[device] = create_stream({.device = device});
  return *handles[device];
}

int device_count_from_environment() {
  const char* text = std::getenv("GPUSIM_DEVICES");
  if (!text) return 1;
  const long count = std::strtol(text, nullptr, 10);
  if (count < 0 || count > kMaxDevices) {
    fatal(Finding::unsupported, std::string("GPUSIM_DEVICES=") + text + ": the simulator has 0 to " +
                                    std::to_string(kMaxDevices) + " devices");
  }
  return static_cast<int>(count);
}

}  // namespace

StreamHandle create_stream(const StreamArgs& args) {
  auto* stream = new CUstream_st;
  stream->queue = &new_queue(args.device);
  stream->device = args.device;
  stream->flags = args.flags;
  stream->priority = args.priority;
  stream->blocking = args.blocking;
  stream->id = streams().next_id++;
  streams().all.insert(stream);
  return stream;
}

void destroy_stream(CUstream_st& stream) {
  stream.alive = false;
  if (stream.blocking) join(legacy_stream(stream.device).clock, stream.clock);  // which would have waited for it
  retire(*stream.queue);
}

void destroy_streams_of(int device) {
  for (auto* stream : streams().all) {
    if (stream->device == device && stream->alive && !stream->legacy) destroy_stream(*stream);
  }
}

CUstream_st* find_stream(StreamHandle handle) {
  if (handle == nullptr || handle == kLegacyStream) return &legacy_stream(current_device());
  if (handle == kPerThreadStream) return &per_thread_stream(current_device());
  return streams().all.contains(handle) && handle->alive ? handle : nullptr;
}

const Clock& clock_of(CUstream_st& stream) {
  if (stream.legacy) {
    for (auto* other : streams().all) {
      if (other->device == stream.device && other->blocking && other->alive) join(stream.clock, other->clock);
    }
  } else if (stream.blocking) {
    join(stream.clock, legacy_stream(stream.device).clock);
  }
  return stream.clock;
}

OperationId enqueue(StreamHandle handle, Work work) {
  std::lock_guard lock(simulator_lock());
  CUstream_st* stream = find_stream(handle);
  if (!stream) {
    report(Finding::invalid_call, work.what + " on a stream that was destroyed or never made");
    return 0;
  }
  if (const auto refused = admit_to_stream(*stream)) {
    const bool known = refused->error == CaptureError::invalidated;  // its cause was reported
    if (!known) report(Finding::invalid_call, work.what + ": " + refused->text);
    return 0;
  }
  if (stream->seat.capture) {
    capture_work(*stream, std::move(work));
    return 0;
  }
  clock_of(*stream);
  const ApiActivity call;
  return submit(*stream->queue, stream->clock, std::move(work));
}

int current_device() {
  return device_of_this_thread;
}
void set_current_device(int device) {
  device_of_this_thread = device;
}

int device_count() {
  static const int count = [] {
    install_fault_handler();
    return device_count_from_environment();
  }();
  return count;
}

bool is_device(int number) {
  return number >= 0 && number < device_count();
}

}  // namespace gpusim
