// NCCL on simulated devices, with ranks as processes: operations across them, and planted misuse, each of which has to
// be reported. As `nccl_process_test --rank <scenario> <rank> <ranks> <unique id>` it is one of the processes.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/wait.h>
#include <unistd.h>

#include "nccl_rank.h"

namespace {

struct Outcome {
  std::vector<int> codes;
  std::string errors;  // what all wrote on standard error
};
Outcome run_processes(const char* scenario, int ranks) {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::FILE* log = std::tmpfile();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      dup2(fileno(log), STDERR_FILENO);
      execl("/proc/self/exe", "nccl_process_test", "--rank", scenario, std::to_string(rank).c_str(),
            std::to_string(ranks).c_str(), id.internal, static_cast<char*>(nullptr));
      _exit(127);
    }
    children.push_back(child);
  }
  Outcome outcome;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    outcome.codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  std::rewind(log);
  char line[1024];
  while (std::fgets(line, sizeof line, log)) outcome.errors += line;
  std::fclose(log);
  return outcome;
}

using NcclProcessTest = LibraryTest;

constexpr int kReportsFound = 86;  // what a process with reports returns

TEST_F(NcclProcessTest, ProcessesReduceScatterAndPassMessages) {
  const auto outcome = run_processes("work", kRanks);
  EXPECT_EQ(outcome.codes, std::vector<int>(kRanks, 0)) << outcome.errors;
}

TEST_F(NcclProcessTest, ProcessesAreServedWhileTheirHostWaitsForSomethingElse) {
  const auto outcome = run_processes("served", 2);
  EXPECT_EQ(outcome.codes, std::vector<int>(2, 0)) << outcome.errors;
}

TEST_F(NcclProcessTest, ReportsWhatDiffersBetweenProcesses) {
  const auto outcome = run_processes("mismatch", 2);
  EXPECT_EQ(outcome.codes, std::vector<int>(2, kReportsFound)) << outcome.errors;
  EXPECT_NE(outcome.errors.find("collective_mismatch: collective #1"), std::string::npos) << outcome.errors;
}

TEST_F(NcclProcessTest, ReportsASendThatNobodyReceivedAndNobodyWaitedFor) {
  const auto outcome = run_processes("unreceived", 2);
  EXPECT_EQ(outcome.codes, (std::vector<int>{kReportsFound, 0})) << outcome.errors;
  EXPECT_NE(outcome.errors.find("deadlock: the process ends, and 'ncclSend"), std::string::npos) << outcome.errors;
}

TEST_F(NcclProcessTest, ReportsAProcessThatEnded) {
  const auto outcome = run_processes("ended", 2);
  EXPECT_EQ(outcome.codes, (std::vector<int>{kReportsFound, 7})) << outcome.errors;
  EXPECT_NE(outcome.errors.find("rank 1 has ended"), std::string::npos) << outcome.errors;
}

TEST_F(NcclProcessTest, ReportsAProcessThatNeverComesButWaitsForOneThatComputes) {
  const auto outcome = run_processes("late", 2);
  EXPECT_EQ(outcome.codes, std::vector<int>(2, 0)) << outcome.errors;
  const auto missing = run_processes("missing", 2);
  EXPECT_EQ(missing.codes, (std::vector<int>{kReportsFound, 0})) << missing.errors;
  EXPECT_NE(missing.errors.find("rank 0 came, rank 1 did not"), std::string::npos) << missing.errors;
}

void work(Rank& rank) {
  auto* stream = rank.stream->get();
  const DeviceArray<float> buffer(rank.input()), gathered(kCount * static_cast<std::size_t>(rank.ranks)),
      passed(kCount);
  for (int step = 0; step < 20; ++step) {
    buffer.upload(rank.input());
    ASSERT_EQ(ncclAllReduce(buffer.get(), buffer.get(), kCount, ncclFloat, ncclSum, rank.comm, stream), ncclSuccess);
    ASSERT_EQ(ncclAllGather(buffer.get(), gathered.get(), kCount, ncclFloat, rank.comm, stream), ncclSuccess);
    rank.stream->wait();
    EXPECT_EQ(buffer.download(), sum_of(rank.ranks));
  }
  // Down a pipeline: each passes on what it got.
  const DeviceArray<float> own(rank.input());
  if (rank.number > 0) {
    ASSERT_EQ(ncclRecv(passed.get(), kCount, ncclFloat, rank.number - 1, rank.comm, stream), ncclSuccess);
  }
  if (rank.number + 1 < rank.ranks) {
    ASSERT_EQ(ncclSend(rank.number ? passed.get() : own.get(), kCount, ncclFloat, rank.number + 1, rank.comm, stream),
              ncclSuccess);
  }
  rank.stream->wait();
  if (rank.number > 0) {
    EXPECT_EQ(passed.download(), input_of(0));
  }
}

// Rank 1 enqueues its part and never asks the device again until rank 0 has its result.
void served(Rank& rank) {
  const DeviceArray<float> buffer(rank.input());
  ASSERT_EQ(ncclAllReduce(buffer.get(), buffer.get(), kCount, ncclFloat, ncclSum, rank.comm, rank.stream->get()),
            ncclSuccess);
  if (rank.number == 1) usleep(2'500'000);  // longer than a rank may be missing
  rank.stream->wait();
  EXPECT_EQ(buffer.download(), sum_of(2));
}

int run_rank(char** arguments) {
  const std::string scenario = arguments[0];
  ncclUniqueId id = {};
  std::strncpy(id.internal, arguments[3], sizeof id.internal - 1);
  Rank rank;
  rank.open(id, std::atoi(arguments[1]), std::atoi(arguments[2]));
  auto* stream = rank.stream->get();
  float* buffer = zeros(10);
  const auto all_reduce = [&](std::size_t count) {
    ncclAllReduce(buffer, buffer, count, ncclFloat, ncclSum, rank.comm, stream);
    return cudaStreamSynchronize(stream);
  };
  if (scenario == "work") work(rank);
  if (scenario == "served") served(rank);
  if (scenario == "unreceived") {
    if (rank.number == 0) ncclSend(buffer, 10, ncclFloat, 1, rank.comm, stream);
    if (rank.number == 1) usleep(700'000);  // is still there when rank 0 ends
    return 0;
  }
  if (scenario == "mismatch") {
    all_reduce(10);
    all_reduce(rank.number ? 9 : 10);
  }
  if (scenario == "ended" || scenario == "missing") {
    if (rank.number == 1) {
      if (scenario == "ended") _exit(7);
      usleep(2'500'000);
      return 0;
    }
    EXPECT_NE(all_reduce(10), cudaSuccess);
    return 0;
  }
  if (scenario == "late") {
    if (rank.number == 1) {  // computes for longer than the deadlock clock allows to wait
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
      while (std::chrono::steady_clock::now() < end) {
      }
    }
    EXPECT_EQ(all_reduce(10), cudaSuccess);
  }
  cudaFree(buffer);
  rank.close();
  return testing::Test::HasFailure() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  setenv("GPUSIM_DEADLOCK_S", "1", 1);  // read when something is first waited for
  if (argc == 6 && std::strcmp(argv[1], "--rank") == 0) return run_rank(argv + 2);
  return RUN_ALL_TESTS();
}
