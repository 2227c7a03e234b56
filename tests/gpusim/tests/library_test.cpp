// What engine/library.h promises the stand-ins for cuBLAS, cuDNN and NCCL. Needs GPUSIM_DEVICES=2, GPUSIM_DEADLOCK_S=1.
#include "engine/library.h"

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "include/gpusim.h"

namespace gpusim {
namespace {

constexpr int kCount = 64;
constexpr std::size_t kBytes = kCount * sizeof(float);

float* allocate() {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, kBytes), cudaSuccess);
  return static_cast<float*>(memory);
}

class Library : public testing::Test {
 protected:
  void SetUp() override {
    cudaSetDevice(0);
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    x_ = allocate();
  }
  void TearDown() override {
    cudaFree(x_);
    cudaStreamDestroy(stream_);
    EXPECT_EQ(take(), "");
  }
  static std::string take() {
    std::string text(1 << 16, '\0');
    gpusim_take_reports(text.data(), text.size());
    return text.c_str();
  }
  static Work fill(float* x, float value) {
    return {.what = "fill", .run = [=] {
              if (auto* memory = static_cast<float*>(map_for_write(x, kBytes, "x"))) std::fill_n(memory, kCount, value);
            }};
  }
  float first() const {
    float value = -1;
    cudaMemcpy(&value, x_, sizeof value, cudaMemcpyDeviceToHost);
    return value;
  }
  cudaStream_t stream_ = nullptr;
  float* x_ = nullptr;
};

TEST_F(Library, WorkRunsInItsStream) {
  const OperationId id = enqueue(stream_, fill(x_, 3.0f));
  EXPECT_NE(id, 0u);
  EXPECT_EQ(operation(id)->what, "fill");
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(first(), 3.0f);
}

TEST_F(Library, MapsAreChecked) {
  bool mapped = true;
  float* x = x_;
  enqueue(stream_, {.what = "reader", .run = [=, &mapped] { mapped = map_for_read(x, kBytes, "x"); }});
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);  // reading garbage does not kill a device
  EXPECT_FALSE(mapped);
  EXPECT_TRUE(take().starts_with("uninitialised_read: x of reader"));
  enqueue(stream_, {.what = "writer", .run = [=, &mapped] { mapped = map_for_write(x, kBytes + 1, "x"); }});
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  EXPECT_FALSE(mapped);
  EXPECT_TRUE(take().starts_with("out_of_bounds: x of writer"));
  cudaDeviceReset();
  cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  x_ = allocate();
}

TEST_F(Library, RacesWithOtherStreamsAreSeen) {
  cudaStream_t other = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  enqueue(stream_, fill(x_, 1.0f));
  enqueue(other, fill(x_, 2.0f));
  cudaDeviceSynchronize();
  EXPECT_TRUE(take().starts_with("stream_race: write by 'fill'"));
  cudaStreamDestroy(other);
}

TEST_F(Library, WorkIsCapturedAndReplayed) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  std::vector<OperationId> entered;
  cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal);
  Work work = fill(x_, 4.0f);
  work.enqueued = [&](OperationId id) { entered.push_back(id); };
  EXPECT_EQ(enqueue(stream_, work), 0u);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_TRUE(entered.empty());
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphLaunch(exec, stream_);
  cudaGraphLaunch(exec, stream_);
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(entered.size(), 2u);
  EXPECT_EQ(first(), 4.0f);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

// A collective of two ranks in the manner of NCCL: it runs once, for both, when both are enqueued.
struct Rendezvous {
  OperationId ids[2] = {};
  float* memory[2] = {};
  bool done = false;
};
Work take_part(const std::shared_ptr<Rendezvous>& both, int rank, float* x) {
  Work work;
  work.what = "sum of rank " + std::to_string(rank);
  work.enqueued = [=](OperationId id) {
    both->ids[rank] = id;
    both->memory[rank] = x;
  };
  work.ready = [=] {
    if (both->done) return true;
    return both->ids[0] && both->ids[1] && run_predecessors(both->ids[1 - rank]);
  };
  work.run = [=] {
    if (both->done) return;
    both->done = true;
    float sum = 0;
    for (int r : {0, 1}) {
      as_operation(both->ids[r], [&] { sum += *static_cast<const float*>(map_for_read(both->memory[r], 4, "send")); });
    }
    for (int r : {0, 1}) {
      as_operation(both->ids[r], [&] { *static_cast<float*>(map_for_write(both->memory[r], 4, "receive")) = sum; });
    }
  };
  return work;
}

TEST_F(Library, CollectiveWaitsForTheOtherHostThread) {
  const auto both = std::make_shared<Rendezvous>();
  float results[2] = {};
  const auto rank = [&](int number) {
    cudaSetDevice(number);
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    float* x = allocate();
    if (number == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    enqueue(stream, fill(x, static_cast<float>(number + 1)));
    enqueue(stream, take_part(both, number, x));
    cudaStreamSynchronize(stream);
    cudaMemcpy(&results[number], x, sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(x);
    cudaStreamDestroy(stream);
  };
  std::thread zero(rank, 0), one(rank, 1);
  zero.join();
  one.join();
  EXPECT_EQ(results[0], 3.0f);
  EXPECT_EQ(results[1], 3.0f);
}

TEST_F(Library, MissingRankIsADeadlock) {
  enqueue(stream_, fill(x_, 1.0f));
  enqueue(stream_, take_part(std::make_shared<Rendezvous>(), 0, x_));
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchTimeout);
  const std::string reports = take();
  EXPECT_TRUE(reports.starts_with("deadlock:")) << reports;
  EXPECT_NE(reports.find("'sum of rank 0'"), std::string::npos) << reports;
  cudaDeviceReset();
  cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  x_ = allocate();
}

TEST_F(Library, DestroyedStreamIsRefused) {
  cudaStream_t gone = nullptr;
  cudaStreamCreate(&gone);
  cudaStreamDestroy(gone);
  EXPECT_EQ(enqueue(gone, fill(x_, 1.0f)), 0u);
  EXPECT_TRUE(take().starts_with("invalid_call: fill on a stream"));
}

}  // namespace
}  // namespace gpusim
