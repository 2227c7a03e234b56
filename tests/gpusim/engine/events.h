// Events: a recorded event is the clock of its stream at that moment, so recording it again changes nothing for those
// who already wait. During a capture it stands for graph nodes instead.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/graph_capture.h"
#include "engine/stream.h"

struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  bool timing = true;
  bool alive = true;
  bool recorded = false;
  gpusim::Clock clock;
  std::weak_ptr<gpusim::Capture> capture;     // in which it was recorded
  bool captured = false;                      // the last record was inside a capture
  std::vector<struct CUgraphNode_st*> nodes;  // what it stands for there
};

namespace gpusim {

using EventHandle = CUevent_st*;

EventHandle create_event(int device, unsigned flags, bool timing);
CUevent_st* find_event(EventHandle handle);  // null: destroyed or never made
void destroy_event(CUevent_st& event);

void record(CUevent_st& event, CUstream_st& stream);
// The stream's next work waits for the event; nothing when it was never recorded. Forks a capture into the stream.
std::optional<CaptureRefusal> wait_for(CUstream_st& stream, CUevent_st& event);

}  // namespace gpusim
