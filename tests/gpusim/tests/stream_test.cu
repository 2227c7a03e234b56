// Streams, events, host functions, host threads and peers. Needs GPUSIM_DEVICES=2. Tests called Lazy... depend on work
// being run as late as possible.
#include "runtime_fixture.h"

namespace {

class Streams : public Runtime {};

TEST_F(Streams, LazyQueriesAdvanceOneOperationAtATime) {
  DeviceArray x;
  Stream stream;
  for (int i = 0; i < 3; ++i) set<<<kBlocks, kThreads, 0, stream>>>(x, kCount, 1.0f);
  int not_ready = 0;
  while (cudaStreamQuery(stream) == cudaErrorNotReady) ++not_ready;
  EXPECT_EQ(not_ready, 3);
}

TEST_F(Streams, LazyWorkRunsWhenItIsWaitedFor) {
  Stream stream;
  std::atomic<int> ran = 0;
  OK(cudaLaunchHostFunc(
      stream, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &ran));
  EXPECT_EQ(ran, 0);
  gpusim_client::set_order("eager");
  OK(cudaLaunchHostFunc(
      stream, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &ran));
  EXPECT_EQ(ran, 2);
  gpusim_client::set_order("lazy");
}

TEST_F(Streams, BlockingStreamsAreOrderedWithTheDefaultStream) {
  DeviceArray x, y;
  Stream blocking(cudaStreamDefault);
  OK(cudaMemset(y, 0, kBytes));
  set<<<kBlocks, kThreads, 0, blocking>>>(x, kCount, 1.0f);
  add<<<kBlocks, kThreads>>>(y, x, kCount);
  set<<<kBlocks, kThreads, 0, blocking>>>(x, kCount, 5.0f);
  EXPECT_EQ(fetch(y)[0], 1.0f);
}

TEST_F(Streams, NonBlockingStreamsAreNot) {
  DeviceArray x, y;
  Stream stream;
  OK(cudaMemset(y, 0, kBytes));
  OK(cudaDeviceSynchronize());
  set<<<kBlocks, kThreads, 0, stream>>>(x, kCount, 1.0f);
  OK(cudaMemcpyAsync(y, x, kBytes, cudaMemcpyDeviceToDevice, nullptr));
  OK(cudaDeviceSynchronize());
  expect_report("stream_race", "not ordered after");
}

TEST_F(Streams, EventsOrderStreams) {
  DeviceArray x, y;
  Stream first, second;
  Event done;
  OK(cudaMemset(y, 0, kBytes));
  OK(cudaDeviceSynchronize());
  set<<<kBlocks, kThreads, 0, first>>>(x, kCount, 3.0f);
  OK(cudaEventRecord(done, first));
  OK(cudaStreamWaitEvent(second, done));
  add<<<kBlocks, kThreads, 0, second>>>(y, x, kCount);
  OK(cudaStreamSynchronize(second));
  EXPECT_EQ(fetch(y)[0], 3.0f);
}

TEST_F(Streams, WaitingForAnEventThatWasRecordedTooEarlyDoesNotOrder) {
  DeviceArray x, y;
  Stream first, second;
  Event early;
  OK(cudaMemset(y, 0, kBytes));
  OK(cudaDeviceSynchronize());
  OK(cudaEventRecord(early, first));
  set<<<kBlocks, kThreads, 0, first>>>(x, kCount, 3.0f);
  OK(cudaStreamWaitEvent(second, early));
  add<<<kBlocks, kThreads, 0, second>>>(y, x, kCount);
  OK(cudaDeviceSynchronize());
  for (const auto& report : gpusim_client::take_reports()) {  // in lazy order it may also read what nobody wrote yet
    EXPECT_TRUE(report.starts_with("stream_race:") || report.starts_with("uninitialised_read:")) << report;
  }
}

TEST_F(Streams, WriterHasToWaitForEveryReader) {
  DeviceArray x, y, z;
  Stream one, two;
  for (float* each : {static_cast<float*>(x), static_cast<float*>(y), static_cast<float*>(z)}) {
    OK(cudaMemset(each, 0, kBytes));
  }
  for (cudaStream_t waited_for : {static_cast<cudaStream_t>(one), static_cast<cudaStream_t>(two)}) {
    OK(cudaDeviceSynchronize());
    Stream writer;
    Event done;
    add<<<kBlocks, kThreads, 0, one>>>(y, x, kCount);
    add<<<kBlocks, kThreads, 0, two>>>(z, x, kCount);
    OK(cudaEventRecord(done, waited_for));
    OK(cudaStreamWaitEvent(writer, done));
    OK(cudaMemsetAsync(x, 1, kBytes, writer));  // has not waited for the other stream
    OK(cudaDeviceSynchronize());
    expect_report("stream_race", "cudaMemsetAsync");
  }
}

TEST_F(Streams, AtomicsOfTwoStreamsNeedNoOrder) {
  DeviceArray sum(1);
  Stream one, two;
  OK(cudaMemset(sum, 0, sizeof(float)));
  OK(cudaDeviceSynchronize());
  add_atomically<<<1, 32, 0, one>>>(sum);
  add_atomically<<<1, 32, 0, two>>>(sum);
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(fetch(sum, 1)[0], 64.0f);
}

TEST_F(Streams, ElapsedTimeIsTheSameEveryTime) {
  DeviceArray x;
  Stream stream;
  const auto measure = [&] {
    Event begin, end;
    cudaEventRecord(begin, stream);
    for (int i = 0; i < 4; ++i) set<<<kBlocks, kThreads, 0, stream>>>(x, kCount, 1.0f);
    cudaEventRecord(end, stream);
    cudaEventSynchronize(end);
    float milliseconds = -1;
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
    return milliseconds;
  };
  const float first = measure();
  EXPECT_GT(first, 0.0f);
  EXPECT_EQ(measure(), first);
  Event untimed(cudaEventDisableTiming), timed;
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, untimed, timed), cudaErrorInvalidResourceHandle);
  expect_report("invalid_call", "DisableTiming");
}

TEST_F(Streams, HostFunctionsRunInOrderAndMayTakeLocks) {
  struct State {
    std::mutex mutex;
    std::vector<int> order;
  } state;
  Stream stream;
  const auto push = [](void* data) {
    auto& shared = *static_cast<State*>(data);
    const std::lock_guard lock(shared.mutex);
    shared.order.push_back(static_cast<int>(shared.order.size()));
  };
  for (int i = 0; i < 3; ++i) OK(cudaLaunchHostFunc(stream, push, &state));
  float* x = nullptr;
  std::thread other([&] {
    const std::lock_guard lock(state.mutex);  // which a host function may want just now
    EXPECT_EQ(cudaMalloc(&x, 4), cudaSuccess);
  });
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  other.join();
  OK(cudaFree(x));
  EXPECT_EQ(state.order, (std::vector<int>{0, 1, 2}));
}

TEST_F(Streams, PerThreadDefaultStream) {
  DeviceArray x;
  set<<<kBlocks, kThreads, 0, cudaStreamPerThread>>>(x, kCount, 6.0f);
  OK(cudaStreamSynchronize(cudaStreamPerThread));
  EXPECT_EQ(fetch(x)[0], 6.0f);
}

TEST_F(Streams, PriorityRange) {
  int least = 1, greatest = 1, priority = 1;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_LT(greatest, least);
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  OK(cudaStreamGetPriority(stream, &priority));
  EXPECT_EQ(priority, greatest);
  OK(cudaStreamDestroy(stream));
}

TEST_F(Streams, CopiesBetweenDevicesNeedNoPeerAccess) {
  DeviceArray here;
  set<<<kBlocks, kThreads>>>(here, kCount, 4.0f);
  OK(cudaDeviceSynchronize());
  OK(cudaSetDevice(1));
  DeviceArray there;
  OK(cudaMemcpyPeer(there, 1, here, 0, kBytes));
  EXPECT_EQ(fetch(there)[0], 4.0f);
  EXPECT_EQ(cudaMemcpyPeer(there, 0, here, 1, kBytes), cudaErrorInvalidValue);
  expect_report("invalid_call", "does not lie on the device");
}

TEST_F(Streams, KernelsReachPeersOnceEnabled) {
  DeviceArray here;
  set<<<kBlocks, kThreads>>>(here, kCount, 4.0f);
  OK(cudaDeviceSynchronize());
  OK(cudaSetDevice(1));
  int can = 0;
  OK(cudaDeviceCanAccessPeer(&can, 1, 0));
  EXPECT_EQ(can, 1);
  OK(cudaDeviceEnablePeerAccess(0, 0));
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
  DeviceArray there;
  OK(cudaMemset(there, 0, kBytes));
  add<<<kBlocks, kThreads>>>(there, here, kCount);
  EXPECT_EQ(fetch(there)[0], 4.0f);
  OK(cudaDeviceDisablePeerAccess(0));
}

TEST_F(Streams, KernelsWithoutPeerAccessFault) {
  DeviceArray here;
  OK(cudaSetDevice(1));
  set<<<kBlocks, kThreads>>>(here, kCount, 4.0f);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  expect_report("peer_access", "set");
  OK(cudaDeviceReset());
  OK(cudaSetDevice(0));
}

TEST_F(Streams, EventsOrderStreamsOfTwoDevices) {
  DeviceArray here;
  Stream first;
  Event done;
  set<<<kBlocks, kThreads, 0, first>>>(here, kCount, 9.0f);
  OK(cudaEventRecord(done, first));
  OK(cudaSetDevice(1));
  DeviceArray there;
  Stream second;
  OK(cudaStreamWaitEvent(second, done));
  OK(cudaMemcpyPeerAsync(there, 1, here, 0, kBytes, second));
  OK(cudaStreamSynchronize(second));
  EXPECT_EQ(fetch(there)[0], 9.0f);
  EXPECT_EQ(cudaEventRecord(done, second), cudaErrorInvalidResourceHandle);
  expect_report("invalid_call", "the event belongs to device 0");
}

TEST_F(Streams, OneHostThreadForEachDevice) {
  std::vector<float> sums(2);
  const auto drive = [&](int device) {
    cudaSetDevice(device);
    Stream stream;
    DeviceArray x, y;
    cudaMemsetAsync(y, 0, kBytes, stream);
    for (int step = 0; step < 20; ++step) {
      set<<<kBlocks, kThreads, 0, stream>>>(x, kCount, static_cast<float>(device + 1));
      add<<<kBlocks, kThreads, 0, stream>>>(y, x, kCount);
    }
    cudaStreamSynchronize(stream);
    sums[device] = fetch(y)[device];
  };
  std::thread one(drive, 0), two(drive, 1);
  one.join();
  two.join();
  EXPECT_EQ(sums, (std::vector<float>{20.0f, 40.0f}));
}

TEST_F(Streams, DestroyedHandlesAreRefused) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  OK(cudaStreamCreate(&stream));
  OK(cudaEventCreate(&event));
  OK(cudaStreamDestroy(stream));
  OK(cudaEventDestroy(event));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  expect_report("invalid_call", "the stream was destroyed");
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorInvalidResourceHandle);
  expect_report("invalid_call", "the event was destroyed");
}

}  // namespace
