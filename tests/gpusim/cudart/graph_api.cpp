// Stream capture and executable graphs. Graphs come from captures only: the functions that add nodes are not exported.
#include <algorithm>
#include <cstring>

#include <cuda_runtime_api.h>

#include "cudart/api_call.h"
#include "engine/graph_exec.h"

using namespace gpusim;

namespace {

CaptureMode mode_of(cudaStreamCaptureMode mode) {
  if (mode == cudaStreamCaptureModeGlobal) return CaptureMode::global;
  return mode == cudaStreamCaptureModeThreadLocal ? CaptureMode::thread_local_mode : CaptureMode::relaxed;
}
cudaStreamCaptureMode mode_of(CaptureMode mode) {
  if (mode == CaptureMode::global) return cudaStreamCaptureModeGlobal;
  return mode == CaptureMode::thread_local_mode ? cudaStreamCaptureModeThreadLocal : cudaStreamCaptureModeRelaxed;
}

cudaStreamCaptureStatus status_of(const CUstream_st& stream) {
  if (!stream.seat.capture) return cudaStreamCaptureStatusNone;
  return stream.seat.capture->invalidated ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

// False: refused, call.error is set.
bool accept_graph(ApiCall& call, cudaGraph_t graph) {
  if (is_live_graph(graph)) return true;
  call.refuse(cudaErrorInvalidValue, "the graph was destroyed or never made");
  return false;
}
bool accept_exec(ApiCall& call, cudaGraphExec_t exec) {
  if (find_exec(exec)) return true;
  call.refuse(cudaErrorInvalidValue, "the executable graph was destroyed or never made");
  return false;
}

cudaError_t make_exec(ApiCall& call, cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  if (!accept_graph(call, graph)) return call.error;
  if (flags != 0) return call.unsupported("instantiation flags " + std::to_string(flags));
  *exec = instantiate(*graph);
  return call.done();
}

// The convention of the functions that list nodes: a null array asks for the number only.
void give(const std::vector<CUgraphNode_st*>& found, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes) std::copy_n(found.begin(), std::min(*count, found.size()), nodes);
  *count = nodes ? std::min(*count, found.size()) : found.size();
}

cudaGraphNodeType type_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::copy:
      return cudaGraphNodeTypeMemcpy;
    case WorkKind::memset:
      return cudaGraphNodeTypeMemset;
    case WorkKind::host_function:
      return cudaGraphNodeTypeHost;
    case WorkKind::allocation:
      return cudaGraphNodeTypeMemAlloc;
    case WorkKind::kernel:
    case WorkKind::library:
      return cudaGraphNodeTypeKernel;
  }
  return cudaGraphNodeTypeEmpty;
}

}  // namespace

GPUSIM_API cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  ApiCall call("cudaStreamBeginCapture");
  if (const auto lost = call.device_lost()) return *lost;
  CUstream_st* stream = call.stream(handle);
  if (!stream) return call.error;
  if (const auto refusal = begin_capture(*stream, mode_of(mode))) return call.refuse(*refusal);
  return cudaSuccess;
}
GPUSIM_API cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return cudaStreamBeginCapture(per_thread(stream), mode);
}

GPUSIM_API cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  ApiCall call("cudaStreamEndCapture");
  *graph = nullptr;
  CUstream_st* stream = call.stream(handle);
  if (!stream) return call.error;
  const EndedCapture ended = end_capture(*stream);
  if (ended.refusal) return call.refuse(*ended.refusal);
  *graph = ended.graph;
  return call.done();
}
GPUSIM_API cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t* graph) {
  return cudaStreamEndCapture(per_thread(stream), graph);
}

GPUSIM_API cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  ApiCall call("cudaStreamIsCapturing");
  CUstream_st* stream = call.stream(handle);
  if (!stream) return call.error;
  *status = status_of(*stream);
  return call.done();
}
GPUSIM_API cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamIsCapturing(per_thread(stream), status);
}

GPUSIM_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                                unsigned long long* id, cudaGraph_t* graph,
                                                const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                                std::size_t* dependency_count) {
  ApiCall call("cudaStreamGetCaptureInfo");
  CUstream_st* stream = call.stream(handle);
  if (!stream) return call.error;
  *status = status_of(*stream);
  if (*status != cudaStreamCaptureStatusActive) return call.done();
  const CaptureSeat& seat = stream->seat;
  if (id) *id = seat.capture->id;
  if (graph) *graph = seat.capture->graph.get();
  if (dependencies) *dependencies = seat.tail.data();
  if (edges) *edges = nullptr;
  if (dependency_count) *dependency_count = seat.tail.size();
  return call.done();
}
GPUSIM_API cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                     unsigned long long* id, cudaGraph_t* graph,
                                                     const cudaGraphNode_t** dependencies,
                                                     const cudaGraphEdgeData** edges, std::size_t* dependency_count) {
  return cudaStreamGetCaptureInfo(per_thread(stream), status, id, graph, dependencies, edges, dependency_count);
}

GPUSIM_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  ApiCall call("cudaThreadExchangeStreamCaptureMode");
  *mode = mode_of(exchange_thread_mode(mode_of(*mode)));
  return call.done();
}

GPUSIM_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  ApiCall call("cudaGraphInstantiate");
  return make_exec(call, exec, graph, flags);
}
GPUSIM_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                     unsigned long long flags) {
  ApiCall call("cudaGraphInstantiateWithFlags");
  return make_exec(call, exec, graph, flags);
}

GPUSIM_API cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle) {
  ApiCall call("cudaGraphUpload");
  if (!accept_exec(call, exec) || !call.stream_for_work(handle)) return call.error;
  return call.done();
}

GPUSIM_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  ApiCall call("cudaGraphLaunch");
  if (const auto lost = call.device_lost()) return *lost;
  CUstream_st* stream = call.stream_for_work(handle);
  if (!stream || !accept_exec(call, exec)) return call.error;
  if (stream->seat.capture) return call.unsupported("a graph launched inside a capture");
  launch_graph(*exec, *stream);
  return cudaSuccess;
}
GPUSIM_API cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  return cudaGraphLaunch(exec, per_thread(stream));
}

GPUSIM_API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                           cudaGraphExecUpdateResultInfo* result) {
  ApiCall call("cudaGraphExecUpdate");
  if (!accept_exec(call, exec) || !accept_graph(call, graph)) return call.error;
  std::memset(result, 0, sizeof *result);
  const std::string difference = update_exec(*exec, *graph);
  // Programs try an update and instantiate again when it fails: no report.
  result->result = difference.empty() ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
  return difference.empty() ? call.done() : call.fail(cudaErrorGraphExecUpdateFailure);
}

GPUSIM_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  ApiCall call("cudaGraphExecDestroy");
  if (!accept_exec(call, exec)) return call.error;
  destroy_exec(*exec);
  return call.done();
}
GPUSIM_API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  ApiCall call("cudaGraphDestroy");
  if (!accept_graph(call, graph)) return call.error;
  destroy_graph(*graph);
  return call.done();
}

GPUSIM_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  ApiCall call("cudaGraphGetNodes");
  if (!accept_graph(call, graph)) return call.error;
  std::vector<CUgraphNode_st*> found;
  for (const auto& node : graph->nodes) found.push_back(node.get());
  give(found, nodes, count);
  return call.done();
}
GPUSIM_API cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  ApiCall call("cudaGraphGetRootNodes");
  if (!accept_graph(call, graph)) return call.error;
  std::vector<CUgraphNode_st*> found;
  for (const auto& node : graph->nodes) {
    if (node->dependencies.empty()) found.push_back(node.get());
  }
  give(found, nodes, count);
  return call.done();
}
GPUSIM_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                                    cudaGraphEdgeData* edges, std::size_t* count) {
  ApiCall call("cudaGraphNodeGetDependencies");
  give(node->dependencies, dependencies, count);
  if (edges) std::memset(edges, 0, sizeof *edges * *count);
  return call.done();
}
GPUSIM_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  ApiCall call("cudaGraphNodeGetType");
  *type = type_of(node->work.kind);
  return call.done();
}
GPUSIM_API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t, const char*, unsigned) {
  ApiCall call("cudaGraphDebugDotPrint");
  return call.unsupported("drawing a graph");
}
