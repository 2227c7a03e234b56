// NCCL on simulated devices, with ranks as threads, in one thread and in graphs: every operation against plain loops,
// and planted misuse, each of which has to be reported. Needs GPUSIM_DEVICES=4 or more.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <thread>

#include "nccl_rank.h"

namespace {

// Each rank in a thread of its own.
void with_ranks(int ranks, const std::function<void(Rank&)>& body) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<std::thread> threads;
  for (int number = 0; number < ranks; ++number) {
    threads.emplace_back([&, number] {
      Rank rank;
      rank.open(id, number, ranks);
      body(rank);
      rank.close();
    });
  }
  for (auto& thread : threads) thread.join();
}

using NcclTest = LibraryTest;

TEST_F(NcclTest, AllReduceInEveryOperationAndInPlace) {
  with_ranks(kRanks, [](Rank& rank) {
    for (const ncclRedOp_t op : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg}) {
      const DeviceArray<float> buffer(rank.input());
      ASSERT_EQ(ncclAllReduce(buffer.get(), buffer.get(), kCount, ncclFloat, op, rank.comm, rank.stream->get()),
                ncclSuccess);
      rank.stream->wait();
      auto expected = input_of(0);
      for (int other = 1; other < kRanks; ++other) {
        const auto input = input_of(other);
        for (std::size_t i = 0; i < kCount; ++i) {
          float& value = expected[i];
          if (op == ncclProd) {
            value *= input[i];
          } else if (op == ncclMax) {
            value = std::max(value, input[i]);
          } else if (op == ncclMin) {
            value = std::min(value, input[i]);
          } else {
            value += input[i];
          }
        }
      }
      if (op == ncclAvg) {
        for (auto& value : expected) value /= kRanks;
      }
      EXPECT_EQ(buffer.download(), expected) << "operation " << op;
    }
  });
}

TEST_F(NcclTest, SixteenBitsIntegersAndDoubles) {
  with_ranks(2, [](Rank& rank) {
    const DeviceArray<__half> half(to_half(rank.input()));
    const DeviceArray<__nv_bfloat16> bfloat(to_bfloat(rank.input()));
    const DeviceArray<std::int64_t> large(std::vector<std::int64_t>(5, std::int64_t{1} << (40 + rank.number)));
    const DeviceArray<double> precise(std::vector<double>(5, 0.5 + rank.number));
    auto* stream = rank.stream->get();
    ASSERT_EQ(ncclAllReduce(half.get(), half.get(), kCount, ncclHalf, ncclSum, rank.comm, stream), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(bfloat.get(), bfloat.get(), kCount, ncclBfloat16, ncclSum, rank.comm, stream), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(large.get(), large.get(), 5, ncclInt64, ncclSum, rank.comm, stream), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(precise.get(), precise.get(), 5, ncclDouble, ncclMax, rank.comm, stream), ncclSuccess);
    rank.stream->wait();
    EXPECT_EQ(to_float(half.download()), sum_of(2));
    EXPECT_EQ(to_float(bfloat.download()), sum_of(2));
    EXPECT_EQ(large.download(), std::vector<std::int64_t>(5, std::int64_t{3} << 40));
    EXPECT_EQ(precise.download(), std::vector<double>(5, 1.5));
  });
}

TEST_F(NcclTest, BroadcastReduceGatherAndScatter) {
  with_ranks(kRanks, [](Rank& rank) {
    auto* stream = rank.stream->get();
    const DeviceArray<float> send(rank.input()), spread(kCount), reduced(kCount), gathered(kCount * kRanks);
    ASSERT_EQ(ncclBroadcast(send.get(), spread.get(), kCount, ncclFloat, 1, rank.comm, stream), ncclSuccess);
    ASSERT_EQ(ncclReduce(send.get(), rank.number == 2 ? reduced.get() : nullptr, kCount, ncclFloat, ncclSum, 2,
                         rank.comm, stream),
              ncclSuccess);
    ASSERT_EQ(ncclAllGather(send.get(), gathered.get(), kCount, ncclFloat, rank.comm, stream), ncclSuccess);
    // In place: each rank's part of the gathered blocks, which are the same everywhere, becomes their sum.
    float* mine = gathered.get() + static_cast<std::size_t>(rank.number) * kCount;
    rank.stream->wait();
    EXPECT_EQ(spread.download(), input_of(1));
    if (rank.number == 2) {
      EXPECT_EQ(reduced.download(), sum_of(kRanks));
    }
    const auto blocks = gathered.download();
    for (int other = 0; other < kRanks; ++other) {
      const auto first = blocks.begin() + static_cast<long>(kCount) * other;
      EXPECT_EQ(std::vector<float>(first, first + kCount), input_of(other));
    }
    ASSERT_EQ(ncclReduceScatter(gathered.get(), mine, kCount, ncclFloat, ncclSum, rank.comm, stream), ncclSuccess);
    rank.stream->wait();
    auto expected = rank.input();
    for (auto& value : expected) value *= kRanks;
    const auto after = gathered.download();
    const auto first = after.begin() + static_cast<long>(kCount) * rank.number;
    EXPECT_EQ(std::vector<float>(first, first + kCount), expected);
  });
}

TEST_F(NcclTest, SendsAndReceivesGoRoundARingInOneGroup) {
  with_ranks(kRanks, [](Rank& rank) {
    const DeviceArray<float> send(rank.input()), receive(kCount);
    const int next = (rank.number + 1) % kRanks, previous = (rank.number + kRanks - 1) % kRanks;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclSend(send.get(), kCount, ncclFloat, next, rank.comm, rank.stream->get()), ncclSuccess);
    ASSERT_EQ(ncclRecv(receive.get(), kCount, ncclFloat, previous, rank.comm, rank.stream->get()), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    rank.stream->wait();
    EXPECT_EQ(receive.download(), input_of(previous));
  });
}

TEST_F(NcclTest, OneThreadDrivesAllRanksAndWaitsForThemOneByOne) {
  std::vector<ncclComm_t> comms(kRanks);
  ASSERT_EQ(ncclCommInitAll(comms.data(), kRanks, nullptr), ncclSuccess);
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<DeviceArray<float>>> buffers;
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
    streams.push_back(std::make_unique<Stream>());
    buffers.push_back(std::make_unique<DeviceArray<float>>(input_of(rank)));
  }
  const auto at = [](int rank) { return static_cast<std::size_t>(rank); };
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(ncclAllReduce(buffers[at(rank)]->get(), buffers[at(rank)]->get(), kCount, ncclFloat, ncclSum,
                            comms[at(rank)], streams[at(rank)]->get()),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  for (int rank = 0; rank < kRanks; ++rank) {
    streams[at(rank)]->wait();
    EXPECT_EQ(buffers[at(rank)]->download(), sum_of(kRanks));
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    int device = -1, count = 0, number = -1;
    EXPECT_EQ(ncclCommCuDevice(comms[at(rank)], &device), ncclSuccess);
    EXPECT_EQ(ncclCommCount(comms[at(rank)], &count), ncclSuccess);
    EXPECT_EQ(ncclCommUserRank(comms[at(rank)], &number), ncclSuccess);
    EXPECT_EQ(device, rank);
    EXPECT_EQ(count, kRanks);
    EXPECT_EQ(number, rank);
    EXPECT_EQ(ncclCommDestroy(comms[at(rank)]), ncclSuccess);
  }
}

TEST_F(NcclTest, CollectivesReplayInGraphs) {
  with_ranks(2, [](Rank& rank) {
    const DeviceArray<float> buffer(rank.input());
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    auto* stream = rank.stream->get();
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(ncclAllReduce(buffer.get(), buffer.get(), kCount, ncclFloat, ncclSum, rank.comm, stream), ncclSuccess);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    rank.stream->wait();
    auto expected = sum_of(2);
    for (auto& value : expected) value *= 4;  // two more sums of two equal parts
    EXPECT_EQ(buffer.download(), expected);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
  });
}

TEST_F(NcclTest, SplitsGiveCommunicatorsOrderedByKey) {
  with_ranks(4, [](Rank& rank) {
    ncclComm_t half = nullptr;
    // Even and odd ranks, each in reverse order.
    ASSERT_EQ(ncclCommSplit(rank.comm, rank.number % 2, -rank.number, &half, nullptr), ncclSuccess);
    int number = -1, count = 0;
    EXPECT_EQ(ncclCommUserRank(half, &number), ncclSuccess);
    EXPECT_EQ(ncclCommCount(half, &count), ncclSuccess);
    EXPECT_EQ(number, rank.number < 2 ? 1 : 0);
    EXPECT_EQ(count, 2);
    const DeviceArray<float> buffer(std::vector<float>(1, static_cast<float>(rank.number)));
    ASSERT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclFloat, ncclSum, half, rank.stream->get()), ncclSuccess);
    rank.stream->wait();
    EXPECT_EQ(buffer.download()[0], rank.number % 2 ? 4 : 2);
    EXPECT_EQ(ncclCommDestroy(half), ncclSuccess);
    ncclComm_t none = half;
    ASSERT_EQ(ncclCommSplit(rank.comm, rank.number == 0 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &none, nullptr), ncclSuccess);
    EXPECT_EQ(none == nullptr, rank.number != 0);
    if (none) {
      EXPECT_EQ(ncclCommDestroy(none), ncclSuccess);
    }
  });
}

// What two ranks do differently; the report has to say it. Devices that were lost by it are reset.
void expect_from_two_ranks(const std::string& kind, const std::string& text, const std::function<void(Rank&)>& body) {
  with_ranks(2, body);
  const auto reports = gpusim_client::take_reports();
  bool found = false;
  for (const auto& line : reports) {
    found = found || line.find(text) != std::string::npos;
    EXPECT_EQ(line.rfind(kind + ":", 0), 0U) << line;  // nothing else is wrong
  }
  EXPECT_TRUE(found) << (reports.empty() ? "nothing was reported" : reports[0]);
  for (int device = 0; device < 2; ++device) {
    cudaSetDevice(device);
    cudaDeviceReset();
  }
  cudaSetDevice(0);
  gpusim_client::take_reports();
}

TEST_F(NcclTest, ReportsCountsTypesOperationsRootsAndKindsThatDiffer) {
  const auto two = [](const std::string& text, const std::function<void(Rank&, float*, cudaStream_t)>& call) {
    expect_from_two_ranks("collective_mismatch", text, [&](Rank& rank) {
      float* buffer = zeros(kCount);
      call(rank, buffer, rank.stream->get());
      cudaStreamSynchronize(rank.stream->get());
    });
  };
  two("count 9", [](Rank& rank, float* buffer, cudaStream_t stream) {
    ncclAllReduce(buffer, buffer, rank.number ? 9 : 10, ncclFloat, ncclSum, rank.comm, stream);
  });
  two("bfloat16", [](Rank& rank, float* buffer, cudaStream_t stream) {
    ncclAllReduce(buffer, buffer, 10, rank.number ? ncclHalf : ncclBfloat16, ncclSum, rank.comm, stream);
  });
  two("max", [](Rank& rank, float* buffer, cudaStream_t stream) {
    ncclAllReduce(buffer, buffer, 10, ncclFloat, rank.number ? ncclSum : ncclMax, rank.comm, stream);
  });
  two("root 1", [](Rank& rank, float* buffer, cudaStream_t stream) {
    ncclBroadcast(buffer, buffer, 10, ncclFloat, rank.number, rank.comm, stream);
  });
  two("ncclReduce", [](Rank& rank, float* buffer, cudaStream_t stream) {
    if (rank.number) {
      ncclReduce(buffer, buffer, 10, ncclFloat, ncclSum, 0, rank.comm, stream);
    } else {
      ncclAllReduce(buffer, buffer, 10, ncclFloat, ncclSum, rank.comm, stream);
    }
  });
  two("message #0", [](Rank& rank, float* buffer, cudaStream_t stream) {
    if (rank.number) {
      ncclRecv(buffer, 9, ncclFloat, 0, rank.comm, stream);
    } else {
      ncclSend(buffer, 10, ncclFloat, 1, rank.comm, stream);
    }
  });
}

TEST_F(NcclTest, ReportsRanksThatNeverCome) {
  expect_from_two_ranks("deadlock", "rank 0 came, rank 1 did not", [](Rank& rank) {
    float* buffer = zeros(10);
    if (rank.number == 1) return;
    ncclAllReduce(buffer, buffer, 10, ncclFloat, ncclSum, rank.comm, rank.stream->get());
    EXPECT_NE(cudaStreamSynchronize(rank.stream->get()), cudaSuccess);
    ncclResult_t error = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(rank.comm, &error), ncclSuccess);
    EXPECT_EQ(error, ncclRemoteError);
  });
  expect_from_two_ranks("deadlock", "never came to receive it", [](Rank& rank) {
    float* buffer = zeros(10);
    if (rank.number == 0) ncclSend(buffer, 10, ncclFloat, 1, rank.comm, rank.stream->get());
    cudaStreamSynchronize(rank.stream->get());
  });
}

TEST_F(NcclTest, ReportsTwoCommunicatorsUsedInDifferentOrders) {
  expect_from_two_ranks("deadlock", "did not", [](Rank& rank) {
    ncclComm_t second = nullptr;
    ASSERT_EQ(ncclCommSplit(rank.comm, 0, rank.number, &second, nullptr), ncclSuccess);
    float* buffer = zeros(10);
    for (const bool first : {true, false}) {
      ncclAllReduce(buffer, buffer, 10, ncclFloat, ncclSum, first == (rank.number == 0) ? rank.comm : second,
                    rank.stream->get());
    }
    cudaStreamSynchronize(rank.stream->get());
    ncclCommAbort(second);
  });
}

TEST_F(NcclTest, ReportsTwoStreamsOfOneCommunicatorThatAreNotOrdered) {
  expect_from_two_ranks("stream_race", "of the same communicator", [](Rank& rank) {
    const DeviceArray<float> a(rank.input()), b(rank.input());
    const Stream other;
    ncclAllReduce(a.get(), a.get(), kCount, ncclFloat, ncclSum, rank.comm, rank.stream->get());
    ncclAllReduce(b.get(), b.get(), kCount, ncclFloat, ncclSum, rank.comm, other.get());
    rank.stream->wait();
    other.wait();
  });
}

TEST_F(NcclTest, ReportsBuffersOfAnotherDeviceOverlapsAndCallsWithoutAGroup) {
  std::vector<ncclComm_t> comms(2);
  ASSERT_EQ(ncclCommInitAll(comms.data(), 2, nullptr), ncclSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const DeviceArray<float> first(input_of(0));
  const Stream first_stream;
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const DeviceArray<float> second(input_of(1));
  const Stream second_stream;
  EXPECT_EQ(ncclAllReduce(second.get(), second.get(), 10, ncclFloat, ncclSum, comms[0], first_stream.get()),
            ncclInvalidArgument);
  expect_report("invalid_call", "sendbuff is on device 1");
  EXPECT_EQ(ncclAllReduce(first.get(), first.get() + 1, 10, ncclFloat, ncclSum, comms[0], first_stream.get()),
            ncclInvalidArgument);
  expect_report("invalid_call", "overlap");
  EXPECT_EQ(ncclAllReduce(first.get(), first.get(), 10, ncclFloat8e4m3, ncclSum, comms[0], first_stream.get()),
            ncclInvalidArgument);
  expect_report("unsupported", "float8e4m3");
  EXPECT_EQ(ncclAllReduce(first.get(), first.get(), 10, ncclFloat, ncclSum, comms[0], first_stream.get()), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(second.get(), second.get(), 10, ncclFloat, ncclSum, comms[1], second_stream.get()),
            ncclSuccess);
  expect_report("invalid_call", "outside of a group");
  second_stream.wait();
  first_stream.wait();
  for (auto* comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(first.get(), first.get(), 10, ncclFloat, ncclSum, comms[0], first_stream.get()),
            ncclInvalidArgument);
  expect_report("invalid_call", "destroyed");
}

TEST_F(NcclTest, ReportsAGraphThatOutlivesItsCommunicator) {
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const DeviceArray<float> buffer(input_of(0));
  const Stream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 10, ncclFloat, ncclSum, comm, stream.get()), ncclSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidUsage);
  expect_report("invalid_call", "a CUDA graph still has an operation");
  cudaGraphExecDestroy(exec);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// A communicator that does not block, asked until it is there.
ncclComm_t begin_to_join(const ncclUniqueId& id, int rank, int ranks) {
  EXPECT_EQ(cudaSetDevice(rank), cudaSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, ranks, id, rank, &config), ncclInProgress);
  return comm;
}

TEST_F(NcclTest, WithoutBlockingRanksAskUntilAllAreThere) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const ncclComm_t first = begin_to_join(id, 0, 2);
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(first, &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress);
  const ncclComm_t second = begin_to_join(id, 1, 2);
  for (auto* comm : {first, second}) {
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclSuccess);
    EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
}

TEST_F(NcclTest, ACommunicatorInTheMakingCanBeAborted) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(begin_to_join(id, 0, 2)), ncclSuccess);
}

TEST_F(NcclTest, ReportsTheUseOfACommunicatorInTheMaking) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const ncclComm_t comm = begin_to_join(id, 0, 2);
  const DeviceArray<float> buffer(input_of(0));
  EXPECT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 10, ncclFloat, ncclSum, comm, nullptr), ncclInvalidUsage);
  expect_report("invalid_call", "still being made");
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidUsage);
  expect_report("invalid_call", "still being made");
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST_F(NcclTest, ReportsARankThatNeverJoins) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const ncclComm_t comm = begin_to_join(id, 0, 2);
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclInternalError);
  expect_report("deadlock", "rank 1 did not come");
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST_F(NcclTest, ReportsTwoRanksOnOneGpu) {
  const int devices[] = {0, 0};
  std::vector<ncclComm_t> comms(2);
  EXPECT_EQ(ncclCommInitAll(comms.data(), 2, devices), ncclInvalidUsage);
  expect_report("invalid_call", "duplicate GPU");
}

TEST_F(NcclTest, ReportsDataThatIsNotWrittenYet) {
  with_ranks(2, [](Rank& rank) {
    const DeviceArray<float> buffer(rank.input()), copy(rank.input());
    const Stream other;
    cudaMemcpyAsync(buffer.get(), copy.get(), buffer.bytes(), cudaMemcpyDeviceToDevice, other.get());
    ncclAllReduce(buffer.get(), buffer.get(), kCount, ncclFloat, ncclSum, rank.comm, rank.stream->get());
    rank.stream->wait();
    other.wait();
  });
  const auto reports = gpusim_client::take_reports();
  EXPECT_EQ(reports.size(), 2U);
  for (const auto& line : reports) EXPECT_EQ(line.rfind("stream_race:", 0), 0U) << line;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  setenv("GPUSIM_DEADLOCK_S", "1", 1);  // read when something is first waited for
  return RUN_ALL_TESTS();
}
