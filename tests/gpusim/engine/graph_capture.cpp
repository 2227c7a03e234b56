#include "engine/graph_capture.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "engine/stream.h"

namespace gpusim {
namespace {

struct Captures {
  std::vector<std::shared_ptr<Capture>> active;
  std::unordered_set<CUgraph_st*> graphs;
  unsigned long long next_id = 1;
};
Captures& captures() {
  static auto* one = new Captures;
  return *one;
}

thread_local CaptureMode thread_mode = CaptureMode::global;

void take_seat(CUstream_st& stream, const std::shared_ptr<Capture>& capture) {
  stream.seat = {.capture = capture, .branch = capture->graph->branches++, .tail = {}};
  capture->streams.push_back(&stream);
}

void leave(const std::shared_ptr<Capture>& capture) {
  for (auto* stream : capture->streams) stream->seat = {};
  std::erase(captures().active, capture);
}

// Every node that another stream captured has to lead back to the origin, or nobody would wait for it.
bool all_joined(const Capture& capture) {
  std::unordered_set<const CUgraphNode_st*> reached;
  std::vector<CUgraphNode_st*> open = capture.origin->seat.tail;
  while (!open.empty()) {
    auto* node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    open.insert(open.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return reached.size() == capture.graph->nodes.size();
}

// Whether a capture in progress forbids this thread's unsafe calls.
bool forbids_unsafe_calls(const Capture& capture) {
  if (capture.mode == CaptureMode::relaxed || thread_mode == CaptureMode::relaxed) return false;
  const bool own = capture.owner == std::this_thread::get_id();
  return own || (capture.mode == CaptureMode::global && thread_mode == CaptureMode::global);
}

}  // namespace

std::optional<CaptureRefusal> begin_capture(CUstream_st& stream, CaptureMode mode) {
  if (stream.legacy) return CaptureRefusal{CaptureError::unsupported, "the legacy default stream cannot capture"};
  if (stream.seat.capture) return CaptureRefusal{CaptureError::unsupported, "the stream captures already"};
  auto capture = std::make_shared<Capture>();
  capture->id = captures().next_id++;
  capture->mode = mode;
  capture->owner = std::this_thread::get_id();
  capture->origin = &stream;
  capture->graph = std::make_unique<CUgraph_st>();
  take_seat(stream, capture);
  captures().active.push_back(std::move(capture));
  return std::nullopt;
}

EndedCapture end_capture(CUstream_st& stream) {
  const auto capture = stream.seat.capture;
  if (!capture) return {nullptr, CaptureRefusal{CaptureError::unmatched, "the stream does not capture"}};
  if (capture->origin != &stream) {
    return {nullptr, CaptureRefusal{CaptureError::unmatched, "the capture did not begin on this stream"}};
  }
  if (capture->mode != CaptureMode::relaxed && capture->owner != std::this_thread::get_id()) {
    return {nullptr, CaptureRefusal{CaptureError::wrong_thread, "the capture began in another thread"}};
  }
  EndedCapture ended;
  if (capture->invalidated) {
    ended.refusal = CaptureRefusal{CaptureError::invalidated, "an earlier error has invalidated the capture"};
  } else if (!all_joined(*capture)) {
    ended.refusal =
        CaptureRefusal{CaptureError::unjoined, "work on another stream was never joined to the origin stream"};
  }
  leave(capture);
  if (!ended.refusal) {
    ended.graph = capture->graph.release();
    captures().graphs.insert(ended.graph);
  }
  return ended;
}

void capture_work(CUstream_st& stream, Work work) {
  auto& graph = *stream.seat.capture->graph;
  graph.nodes.push_back(std::make_unique<CUgraphNode_st>());
  auto& node = *graph.nodes.back();
  node.work = std::move(work);
  node.device = stream.device;
  node.branch = stream.seat.branch;
  node.dependencies = stream.seat.tail;
  stream.seat.tail = {&node};
}

std::optional<CaptureRefusal> wait_in_capture(CUstream_st& stream, const std::shared_ptr<Capture>& capture,
                                              const std::vector<CUgraphNode_st*>& nodes) {
  const bool ended =
      !capture || std::find(captures().active.begin(), captures().active.end(), capture) == captures().active.end();
  if (ended) {
    return refuse_and_invalidate(stream, CaptureError::captured_event,
                                 "the event was recorded in a capture that has ended");
  }
  if (stream.legacy) {
    capture->invalidated = true;
    return CaptureRefusal{CaptureError::implicit, "the legacy default stream cannot join a capture"};
  }
  if (!stream.seat.capture) {
    take_seat(stream, capture);
  } else if (stream.seat.capture != capture) {
    stream.seat.capture->invalidated = capture->invalidated = true;
    return CaptureRefusal{CaptureError::merge, "the event would merge two captures"};
  }
  auto& tail = stream.seat.tail;
  for (auto* node : nodes) {
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
  return std::nullopt;
}

std::optional<CaptureRefusal> admit_to_stream(CUstream_st& stream) {
  if (stream.seat.capture && stream.seat.capture->invalidated) {
    return CaptureRefusal{CaptureError::invalidated, "an earlier error has invalidated the capture"};
  }
  if (!stream.legacy) return std::nullopt;
  for (const auto& capture : captures().active) {
    for (const auto* other : capture->streams) {
      if (!other->blocking || other->device != stream.device || !forbids_unsafe_calls(*capture)) continue;
      capture->invalidated = true;
      return CaptureRefusal{CaptureError::implicit,
                            "the legacy default stream would wait for a stream that captures; the capture is invalid"};
    }
  }
  return std::nullopt;
}

std::optional<CaptureRefusal> admit_unsafe_call() {
  for (const auto& capture : captures().active) {
    if (!forbids_unsafe_calls(*capture)) continue;
    capture->invalidated = true;
    return CaptureRefusal{CaptureError::unsupported, "not allowed while a stream captures; the capture is invalid"};
  }
  return std::nullopt;
}

std::optional<CaptureRefusal> refuse_and_invalidate(CUstream_st& stream, CaptureError error, std::string text) {
  if (stream.seat.capture) stream.seat.capture->invalidated = true;
  return CaptureRefusal{error, std::move(text)};
}

CaptureMode exchange_thread_mode(CaptureMode mode) {
  return std::exchange(thread_mode, mode);
}

bool is_live_graph(CUgraph_st* graph) {
  return captures().graphs.contains(graph) && graph->alive;
}

void destroy_graph(CUgraph_st& graph) {
  graph.alive = false;  // the handle stays known, so that a second destroy is seen
  graph.nodes.clear();
}

}  // namespace gpusim
