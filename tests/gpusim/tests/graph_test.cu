// Stream capture, graphs and their replay, and the errors of a capture.
#include "runtime_fixture.h"

namespace {

class Graphs : public Runtime {};

struct Graph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ~Graph() {
    if (exec) cudaGraphExecDestroy(exec);
    if (graph) cudaGraphDestroy(graph);
  }
};

TEST_F(Graphs, GraphReplaysWhatWasCaptured) {
  DeviceArray x, y;
  Stream stream;
  Graph made;
  OK(cudaMemset(y, 0, kBytes));
  OK(cudaDeviceSynchronize());
  float value = 2.0f;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  set<<<kBlocks, kThreads, 0, stream>>>(x, kCount, value);
  value = 100.0f;  // the captured value counts
  add<<<kBlocks, kThreads, 0, stream>>>(y, x, kCount);
  cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(stream, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  OK(cudaStreamEndCapture(stream, &made.graph));
  std::size_t nodes = 0;
  OK(cudaGraphGetNodes(made.graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 2u);
  EXPECT_EQ(fetch(y)[0], 0.0f);  // nothing has run yet
  OK(cudaGraphInstantiate(&made.exec, made.graph, 0));
  for (int i = 0; i < 3; ++i) OK(cudaGraphLaunch(made.exec, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(fetch(y)[999], 6.0f);
}

TEST_F(Graphs, GraphWithForkAndJoin) {
  DeviceArray x, y, z;
  Stream origin, side;
  Event forked, joined;
  Graph made;
  OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
  OK(cudaEventRecord(forked, origin));
  OK(cudaStreamWaitEvent(side, forked));
  set<<<kBlocks, kThreads, 0, origin>>>(x, kCount, 1.0f);
  set<<<kBlocks, kThreads, 0, side>>>(y, kCount, 2.0f);
  OK(cudaEventRecord(joined, side));
  OK(cudaStreamWaitEvent(origin, joined));
  add<<<kBlocks, kThreads, 0, origin>>>(x, y, kCount);
  unsigned long long id = 0;
  std::size_t dependencies = 0;
  cudaStreamCaptureStatus status;
  OK(cudaStreamGetCaptureInfo(origin, &status, &id, nullptr, nullptr, nullptr, &dependencies));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(dependencies, 1u);
  OK(cudaStreamEndCapture(origin, &made.graph));
  OK(cudaGraphInstantiate(&made.exec, made.graph, 0));
  OK(cudaGraphLaunch(made.exec, origin));
  OK(cudaGraphLaunch(made.exec, side));  // launches of one graph never overlap
  OK(cudaStreamSynchronize(side));
  EXPECT_EQ(fetch(x)[0], 3.0f);
}

TEST_F(Graphs, BranchesOfAGraphThatAreNotOrderedRace) {
  DeviceArray x;
  Stream origin, side;
  Event forked, joined;
  Graph made;
  OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  OK(cudaEventRecord(forked, origin));
  OK(cudaStreamWaitEvent(side, forked));
  set<<<kBlocks, kThreads, 0, origin>>>(x, kCount, 1.0f);
  set<<<kBlocks, kThreads, 0, side>>>(x, kCount, 2.0f);
  OK(cudaEventRecord(joined, side));
  OK(cudaStreamWaitEvent(origin, joined));
  OK(cudaStreamEndCapture(origin, &made.graph));
  OK(cudaGraphInstantiate(&made.exec, made.graph, 0));
  OK(cudaGraphLaunch(made.exec, origin));
  OK(cudaStreamSynchronize(origin));
  expect_report("stream_race", "set");
}

TEST_F(Graphs, GraphUpdateTakesNewParameters) {
  DeviceArray x;
  Stream stream;
  Graph first, second, other;
  const auto capture = [&](cudaGraph_t& graph, float value, bool twice) {
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
    set<<<kBlocks, kThreads, 0, stream>>>(x, kCount, value);
    if (twice) set<<<kBlocks, kThreads, 0, stream>>>(x, kCount, value);
    cudaStreamEndCapture(stream, &graph);
  };
  capture(first.graph, 1.0f, false);
  capture(second.graph, 2.0f, false);
  capture(other.graph, 3.0f, true);
  OK(cudaGraphInstantiate(&first.exec, first.graph, 0));
  cudaGraphExecUpdateResultInfo result;
  OK(cudaGraphExecUpdate(first.exec, second.graph, &result));
  OK(cudaGraphLaunch(first.exec, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(fetch(x)[0], 2.0f);
  EXPECT_EQ(cudaGraphExecUpdate(first.exec, other.graph, &result), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(result.result, cudaGraphExecUpdateErrorTopologyChanged);
}

TEST_F(Graphs, PinnedCopiesInAGraphProtectAtEveryLaunch) {
  DeviceArray x;
  PinnedArray pinned;
  Stream stream;
  Graph made;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMemcpyAsync(x, pinned, kBytes, cudaMemcpyHostToDevice, stream));
  OK(cudaStreamEndCapture(stream, &made.graph));
  OK(cudaGraphInstantiate(&made.exec, made.graph, 0));
  for (float value : {1.0f, 2.0f}) {
    pinned[0] = value;
    OK(cudaGraphLaunch(made.exec, stream));
    OK(cudaStreamSynchronize(stream));
    EXPECT_EQ(fetch(x, 1)[0], value);
  }
  OK(cudaGraphLaunch(made.exec, stream));
  pinned[0] = 3.0f;
  expect_report("host_race");
}

TEST_F(Graphs, UnsafeCallInvalidatesACapture) {
  Stream stream;
  cudaGraph_t graph = nullptr;
  void* memory = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
  expect_report("invalid_call", "cudaMalloc");
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);

  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaMalloc(&memory, 16));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphDestroy(graph));
  OK(cudaFree(memory));

  // A thread-local capture forbids nothing to other threads.
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  std::thread([&] { EXPECT_EQ(cudaMalloc(&memory, 16), cudaSuccess); }).join();
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphDestroy(graph));
  OK(cudaFree(memory));
}

TEST_F(Graphs, CaptureErrors) {
  DeviceArray x;
  Stream origin, side;
  Event forked, outside;
  cudaGraph_t graph = nullptr;
  // Work that is never joined.
  OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  OK(cudaEventRecord(forked, origin));
  OK(cudaStreamWaitEvent(side, forked));
  set<<<kBlocks, kThreads, 0, side>>>(x, kCount, 1.0f);
  EXPECT_EQ(cudaEventQuery(forked), cudaErrorCapturedEvent);
  expect_report("invalid_call");
  EXPECT_EQ(cudaStreamEndCapture(origin, &graph), cudaErrorStreamCaptureInvalidated);

  OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  OK(cudaEventRecord(forked, origin));
  OK(cudaStreamWaitEvent(side, forked));
  set<<<kBlocks, kThreads, 0, side>>>(x, kCount, 1.0f);
  EXPECT_EQ(cudaStreamEndCapture(origin, &graph), cudaErrorStreamCaptureUnjoined);
  expect_report("invalid_call");

  // A dependency on what is not captured.
  OK(cudaEventRecord(outside, side));
  OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaStreamWaitEvent(origin, outside), cudaErrorStreamCaptureIsolation);
  expect_report("invalid_call");
  EXPECT_EQ(cudaStreamEndCapture(origin, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamEndCapture(origin, &graph), cudaErrorStreamCaptureUnmatched);
  expect_report("invalid_call");

  // The legacy stream would wait for a blocking stream that captures.
  Stream blocking(cudaStreamDefault);
  OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaMemset(x, 0, kBytes), cudaErrorStreamCaptureImplicit);
  expect_report("invalid_call");
  EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
}

}  // namespace
