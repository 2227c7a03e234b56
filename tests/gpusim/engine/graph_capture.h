// Stream capture and the graphs it makes. While a stream captures, its work becomes nodes; events carry the capture to
// other streams and back. A graph launch puts copies of the nodes' work into queues of the executable graph's own, one
// for each captured stream, so that branches the program did not order stay unordered for the race check.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/scheduler.h"

struct CUgraphNode_st {
  gpusim::Work work;
  int device = 0;
  int branch = 0;  // which of the capture's streams it came from: nodes of a branch form a chain
  std::vector<CUgraphNode_st*> dependencies;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  // each after its dependencies
  int branches = 0;
  bool alive = true;
};

namespace gpusim {

enum class CaptureMode { global, thread_local_mode, relaxed };
// As the runtime's error codes distinguish them.
enum class CaptureError {
  unsupported,
  invalidated,
  merge,
  unmatched,
  unjoined,
  isolation,
  implicit,
  captured_event,
  wrong_thread,
};
struct CaptureRefusal {
  CaptureError error = CaptureError::unsupported;
  std::string text;
};

struct Capture {
  unsigned long long id = 0;
  CaptureMode mode = CaptureMode::global;
  std::thread::id owner;
  StreamHandle origin = nullptr;
  std::vector<StreamHandle> streams;  // that take part
  std::unique_ptr<CUgraph_st> graph;
  bool invalidated = false;
};

// A stream's part in a capture.
struct CaptureSeat {
  std::shared_ptr<Capture> capture;  // null: it does not capture
  int branch = 0;
  std::vector<CUgraphNode_st*> tail;  // what its next node depends on
};

std::optional<CaptureRefusal> begin_capture(CUstream_st& stream, CaptureMode mode);
struct EndedCapture {
  CUgraph_st* graph = nullptr;
  std::optional<CaptureRefusal> refusal;
};
EndedCapture end_capture(CUstream_st& stream);

void capture_work(CUstream_st& stream, Work work);
std::optional<CaptureRefusal> wait_in_capture(CUstream_st& stream, const std::shared_ptr<Capture>& capture,
                                              const std::vector<CUgraphNode_st*>& nodes);

// May work be enqueued here now? Not on the legacy stream while a blocking stream captures, nor in an invalidated
// capture.
std::optional<CaptureRefusal> admit_to_stream(CUstream_st& stream);
// May this thread make a call that a capture forbids (cudaMalloc, cudaDeviceSynchronize, ...)? Invalidates the capture.
std::optional<CaptureRefusal> admit_unsafe_call();
std::optional<CaptureRefusal> refuse_and_invalidate(CUstream_st& stream, CaptureError error, std::string text);
CaptureMode exchange_thread_mode(CaptureMode mode);  // cudaThreadExchangeStreamCaptureMode

bool is_live_graph(CUgraph_st* graph);
void destroy_graph(CUgraph_st& graph);

}  // namespace gpusim
