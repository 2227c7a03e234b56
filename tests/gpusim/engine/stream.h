// A stream of the program: a queue, what its next operation comes after, and its part in a graph capture. The legacy
// default stream of a device waits for its blocking streams, and they for it; handles are never given out twice, so the
// use of a destroyed one is seen.
#pragma once

#include <vector>

#include "engine/graph_capture.h"
#include "engine/scheduler.h"

struct CUstream_st {
  gpusim::Queue* queue = nullptr;
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  unsigned long long id = 0;
  bool blocking = true;  // ordered with the legacy default stream
  bool legacy = false;
  bool alive = true;
  gpusim::Clock clock;  // its operations so far, and all they come after
  gpusim::CaptureSeat seat;
};

namespace gpusim {

inline const StreamHandle kLegacyStream = reinterpret_cast<StreamHandle>(1);
inline const StreamHandle kPerThreadStream = reinterpret_cast<StreamHandle>(2);

struct StreamArgs {
  int device = 0;
  bool blocking = true;
  unsigned flags = 0;
  int priority = 0;
};
StreamHandle create_stream(const StreamArgs& args);
void destroy_stream(CUstream_st& stream);

// The stream of a handle: null for one that was destroyed or never made. Handles 0 and 1 are the current device's
// legacy default stream, 2 is this thread's default stream on it.
CUstream_st* find_stream(StreamHandle handle);

// What an operation enqueued now would come after.
const Clock& clock_of(CUstream_st& stream);
void destroy_streams_of(int device);

void set_current_device(int device);  // of this thread

}  // namespace gpusim
