// All-reduce between two ranks: threads of one process against processes that Open MPI joins, by its own calls and by
// ours. In turns, since the machine is noisy; the best of each counts. tools/bench --folds runs it.
// On a busy machine Open MPI must be told to yield, or its spinning ranks stand in each other's way:
//   mpirun --bind-to none --mca mpi_yield_when_idle 1 -np 2 build/release/allreduce_bench
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <mpi.h>

#include "parallel/communicator/local_communicator.h"
#include "parallel/world.h"

namespace {

using namespace trifold;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 7;
constexpr std::size_t kBytesOfRound = std::size_t{256} << 20;

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// One rank's part: the same sum again and again.
double repeat(Communicator& ranks, std::vector<float>& data, std::size_t times) {
  ranks.barrier();
  return seconds_of([&] {
    for (std::size_t i = 0; i < times; ++i) ranks.wait(ranks.all_reduce(data));
  });
}

double by_threads(int ranks, std::size_t count, std::size_t times) {
  const auto group = make_local_group({.size = ranks});
  std::vector<double> seconds(group.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < group.size(); ++rank)
    threads.emplace_back([&, rank] {
      std::vector<float> data(count, 0.0f);
      seconds[rank] = repeat(*group[rank], data, times);
    });
  for (std::thread& thread : threads) thread.join();
  return *std::ranges::max_element(seconds);
}

double by_open_mpi(std::vector<float>& data, std::size_t times, bool blocking) {
  MPI_Barrier(MPI_COMM_WORLD);
  return seconds_of([&] {
    for (std::size_t i = 0; i < times; ++i) {
      const int count = static_cast<int>(data.size());
      if (blocking) {
        MPI_Allreduce(MPI_IN_PLACE, data.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        continue;
      }
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Iallreduce(MPI_IN_PLACE, data.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  });
}

void measure(const World& world, std::size_t mebibytes) {
  const std::size_t bytes = mebibytes << 20;
  const std::size_t times = std::max<std::size_t>(kBytesOfRound / bytes, 4);
  std::vector<float> data(bytes / sizeof(float), 0.0f);
  std::map<std::string, double> best;  // seconds of one
  const auto keep = [&](const char* name, double seconds) {
    const auto [entry, added] = best.try_emplace(name, seconds / static_cast<double>(times));
    if (!added) entry->second = std::min(entry->second, seconds / static_cast<double>(times));
  };
  for (int round = 0; round < kRounds; ++round) {
    keep("MPI_Allreduce", by_open_mpi(data, times, true));
    keep("MPI_Iallreduce", by_open_mpi(data, times, false));
    keep("processes", repeat(world.everyone(), data, times));
    if (world.first()) keep("threads", by_threads(world.size(), data.size(), times));
    world.everyone().barrier();
  }
  if (!world.first()) return;
  const double mpi = std::min(best["MPI_Allreduce"], best["MPI_Iallreduce"]);
  fmt::print("{:>4} MiB", mebibytes);
  for (const char* name : {"threads", "processes", "MPI_Allreduce", "MPI_Iallreduce"})
    fmt::print("  {} {:.2f} GB/s", name, static_cast<double>(bytes) / best[name] / 1e9);
  fmt::print("  threads to MPI's best: {:.2f}\n", mpi / best["threads"]);
}

}  // namespace

int main() {
  const std::unique_ptr<World> world = join_world();
  if (!world) {
    fmt::print(stderr, "start this with: mpirun --bind-to none -np 2 build/release/allreduce_bench\n");
    return 2;
  }
  world->run([&] {
    for (const std::size_t mebibytes : {1, 4, 16, 64}) measure(*world, mebibytes);
  });
}
