// What the stand-in for CUPTI tells a tool: records of work under the number of the API call that gave it, and what the
// tool has tagged that call with.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <gtest/gtest.h>

#include "engine/library.h"

namespace gpusim {
namespace {

// The tool: copies of all records, by kind. Its buffers hold two or three.
struct Seen {
  std::vector<CUpti_ActivityKernel10> kernels;
  std::vector<CUpti_ActivityMemcpy6> copies;
  std::vector<CUpti_ActivityMemset4> fills;
  std::vector<CUpti_ActivityExternalCorrelation> tags;
  int buffers = 0;
};
Seen seen;
constexpr std::size_t kBufferBytes = 512;

void give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = kBufferBytes;
  *most = 0;
}

template <class Record>
const Record& as(const CUpti_Activity* record) {
  return *reinterpret_cast<const Record*>(record);
}

void take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  ++seen.buffers;
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
      seen.kernels.push_back(as<CUpti_ActivityKernel10>(record));
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) seen.copies.push_back(as<CUpti_ActivityMemcpy6>(record));
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) seen.fills.push_back(as<CUpti_ActivityMemset4>(record));
    if (record->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)
      seen.tags.push_back(as<CUpti_ActivityExternalCorrelation>(record));
  }
  std::free(buffer);
}

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};
constexpr auto kCustom = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

class Cupti : public testing::Test {
 protected:
  void SetUp() override {
    seen = {};
    cudaSetDevice(1);
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    cudaMalloc(&memory_, kBytes);
    ASSERT_EQ(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), CUPTI_SUCCESS);
    for (const CUpti_ActivityKind kind : kKinds) ASSERT_EQ(cuptiActivityEnable(kind), CUPTI_SUCCESS);
  }
  void TearDown() override {
    for (const CUpti_ActivityKind kind : kKinds) cuptiActivityDisable(kind);
    cudaFree(memory_);
    cudaStreamDestroy(stream_);
  }
  void give_library_work() const {
    enqueue(stream_, {.what = "cudnnSomething 3x3", .run = [] {}});
  }
  void finish() const {
    cudaStreamSynchronize(stream_);
    ASSERT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  }

  static constexpr std::size_t kBytes = 1024;
  cudaStream_t stream_ = nullptr;
  void* memory_ = nullptr;
};

TEST_F(Cupti, WorkHasARecordWithTheTagOfItsCall) {
  give_library_work();  // before any tag
  cuptiActivityPushExternalCorrelationId(kCustom, 41);
  cuptiActivityPushExternalCorrelationId(kCustom, 42);
  cudaMemsetAsync(memory_, 0, kBytes, stream_);
  std::uint64_t last = 0;
  cuptiActivityPopExternalCorrelationId(kCustom, &last);
  EXPECT_EQ(last, 42u);
  give_library_work();
  cuptiActivityPopExternalCorrelationId(kCustom, nullptr);
  EXPECT_EQ(cuptiActivityPopExternalCorrelationId(kCustom, nullptr), CUPTI_ERROR_QUEUE_EMPTY);
  finish();

  ASSERT_EQ(seen.fills.size(), 1u);
  EXPECT_EQ(seen.fills[0].bytes, kBytes);
  EXPECT_EQ(seen.fills[0].deviceId, 1u);
  EXPECT_LT(seen.fills[0].start, seen.fills[0].end);
  ASSERT_EQ(seen.kernels.size(), 2u);
  EXPECT_STREQ(seen.kernels[0].name, "cudnnSomething");
  EXPECT_EQ(seen.kernels[0].gridX, 0) << "a library's kernel has no shape here";
  ASSERT_EQ(seen.tags.size(), 2u);
  EXPECT_EQ(seen.tags[0].externalId, 42u);
  EXPECT_EQ(seen.tags[0].correlationId, seen.fills[0].correlationId);
  EXPECT_EQ(seen.tags[1].externalId, 41u);
  EXPECT_EQ(seen.tags[1].correlationId, seen.kernels[1].correlationId);
  EXPECT_GT(seen.buffers, 1) << "they do not fit into one";
}

// As the real library says: the record of an external id precedes that of an API call.
TEST_F(Cupti, TagsComeOnlyWithApiCalls) {
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_RUNTIME);
  cuptiActivityPushExternalCorrelationId(kCustom, 1);
  give_library_work();
  cuptiActivityPopExternalCorrelationId(kCustom, nullptr);
  finish();
  EXPECT_EQ(seen.kernels.size(), 1u);
  EXPECT_EQ(seen.tags.size(), 0u);
}

TEST_F(Cupti, AGraphIsOneCall) {
  cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
  give_library_work();
  give_library_work();
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream_, &graph);
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiate(&exec, graph, 0);
  finish();
  EXPECT_EQ(seen.kernels.size(), 0u) << "nothing ran yet";
  for (int launch = 0; launch < 2; ++launch) cudaGraphLaunch(exec, stream_);
  finish();
  ASSERT_EQ(seen.kernels.size(), 4u);
  EXPECT_EQ(seen.kernels[0].correlationId, seen.kernels[1].correlationId);
  EXPECT_EQ(seen.kernels[2].correlationId, seen.kernels[3].correlationId);
  EXPECT_NE(seen.kernels[1].correlationId, seen.kernels[2].correlationId);
  EXPECT_NE(seen.kernels[0].gridId, seen.kernels[1].gridId);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

TEST_F(Cupti, WhatIsOffIsNotRecorded) {
  for (const CUpti_ActivityKind kind : kKinds) cuptiActivityDisable(kind);
  give_library_work();
  finish();
  EXPECT_EQ(seen.kernels.size(), 0u);
}

TEST_F(Cupti, RefusesWhatItIsToldTo) {
  EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_PC_SAMPLING), CUPTI_ERROR_INVALID_KIND);
  ::setenv("GPUSIM_CUPTI", "refuse", 1);
  const CUptiResult refused = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
  ::unsetenv("GPUSIM_CUPTI");
  const char* text = nullptr;
  EXPECT_EQ(cuptiGetResultString(refused, &text), CUPTI_SUCCESS);
  EXPECT_STREQ(text, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES");
}

}  // namespace
}  // namespace gpusim
