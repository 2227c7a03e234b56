#include "nccl/communicator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <sys/random.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "nccl/operation.h"
#include "nccl/peer_process.h"

namespace gpusim {
namespace {

using std::chrono::milliseconds;

// Programs start slowly; a rank has this many times longer to join than to come to an operation.
constexpr double kJoinPatience = 6;

std::string& last_error_text() {
  thread_local std::string text = "no error";
  return text;
}

struct Worlds {
  std::mutex mutex;
  std::map<std::string, World*> open;  // not all ranks are there yet
};
Worlds& worlds() {
  static auto* all = new Worlds;
  return *all;
}

World& world_of(const JoinArgs& args) {
  std::lock_guard lock(worlds().mutex);
  auto*& world = worlds().open[args.name];
  if (!world) world = new World(args.name, args.ranks);
  return *world;
}

// Processes have their own simulated devices. They count as those of one machine unless GPUSIM_NODE tells them apart.
std::string gpu_of(int device) {
  utsname machine = {};
  uname(&machine);
  const char* node = std::getenv("GPUSIM_NODE");
  std::string gpu = node ? std::string("node ") + node : std::string(machine.nodename);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string index = std::to_string(device);
  if (visible && *visible) {
    std::string list = visible;
    for (int skip = 0; skip < device && list.find(',') != std::string::npos; ++skip) list.erase(0, list.find(',') + 1);
    index = list.substr(0, list.find(','));
  }
  return gpu + ", device " + index;
}

// Ranks on one GPU cannot be in one communicator.
ncclResult_t check_gpus(const World& world, int rank) {
  for (int other = 0; other < world.ranks; ++other) {
    const auto& mine = world.board.rank(rank);
    const auto& theirs = world.board.rank(other);
    if (other == rank || std::strcmp(mine.gpu, theirs.gpu) != 0) continue;
    return refuse(ncclInvalidUsage,
                  "NCCL: duplicate GPU: ranks " + std::to_string(rank) + " and " + std::to_string(other) +
                      " are both on " + mine.gpu +
                      " (processes that stand for nodes of their own: give each another GPUSIM_NODE)");
  }
  return ncclSuccess;
}

std::vector<int> absent_ranks(const World& world) {
  std::vector<int> absent;
  for (int rank = 0; rank < world.ranks; ++rank) {
    if (world.board.rank(rank).presence.load() == Presence::absent) absent.push_back(rank);
  }
  return absent;
}

std::vector<int> others_than(const std::vector<int>& ranks, int count) {
  std::vector<int> others;
  for (int rank = 0; rank < count; ++rank) {
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) others.push_back(rank);
  }
  return others;
}

std::vector<int> ranks_without_split(const World& world, std::uint32_t number) {
  std::vector<int> missing;
  for (int rank = 0; rank < world.ranks; ++rank) {
    if (world.board.rank(rank).splits[number % 2].number.load() != number) missing.push_back(rank);
  }
  return missing;
}

// Until `missing` is empty. What is missing then is reported.
template <class Missing>
ncclResult_t wait_on_board(const World& world, const std::string& what, const Missing& missing) {
  const auto limit = std::chrono::duration<double>(seconds_until_deadlock() * kJoinPatience);
  const auto began = std::chrono::steady_clock::now();
  for (;;) {
    const std::uint32_t seen = world.board.header().changes.load();
    const auto absent = missing();
    if (absent.empty()) return ncclSuccess;
    if (std::chrono::steady_clock::now() - began > limit) {
      return refuse(ncclInternalError,
                    what + ": of " + std::to_string(world.ranks) + " ranks, " +
                        list_of(others_than(absent, world.ranks)) + " came, " + list_of(absent) + " did not",
                    Finding::deadlock);
    }
    world.board.wait_for_change(seen, milliseconds(50));
  }
}

}  // namespace

ncclComm* join_world(const JoinArgs& args, ncclResult_t& error) {
  World& world = world_of(args);
  std::uint32_t none = 0;
  const auto ranks = static_cast<std::uint32_t>(args.ranks);
  auto& header = world.board.header();
  if (!header.ranks.compare_exchange_strong(none, ranks) && none != ranks) {
    error =
        refuse(ncclInvalidArgument, "ncclCommInitRank: rank " + std::to_string(args.rank) + " says that there are " +
                                        std::to_string(args.ranks) + " ranks, another says " + std::to_string(none));
    return nullptr;
  }
  std::lock_guard lock(simulator_lock());
  auto& place = world.board.rank(args.rank);
  auto& local = world.local[static_cast<std::size_t>(args.rank)];
  if (local || place.presence.load() != Presence::absent) {
    error = refuse(ncclInvalidUsage, "ncclCommInitRank: rank " + std::to_string(args.rank) + " is there twice");
    return nullptr;
  }
  auto* comm = new ncclComm;
  comm->world = &world;
  comm->rank = args.rank;
  comm->device = args.device;
  local = comm;
  watch_process_end(*comm);
  place.process = getpid();
  place.device = comm->device;
  std::strncpy(place.gpu, gpu_of(comm->device).c_str(), sizeof place.gpu - 1);
  place.presence.store(Presence::here);
  world.board.announce();
  return comm;
}

ncclResult_t ask_for_all(ncclComm& comm) {
  const auto limit = std::chrono::duration<double>(seconds_until_deadlock() * kJoinPatience);
  const bool all_here = absent_ranks(*comm.world).empty();
  if (!all_here && std::chrono::steady_clock::now() - comm.joining_since < limit) {
    comm.world->board.wait_for_change(comm.world->board.header().changes.load(), milliseconds(1));
    return ncclInProgress;
  }
  comm.joining = false;
  return all_here ? wait_for_all(comm)
                  : refuse(ncclInternalError,
                           "ncclCommInitRankConfig: of " + std::to_string(comm.world->ranks) + " ranks, " +
                               list_of(absent_ranks(*comm.world)) + " did not come",
                           Finding::deadlock);
}

ncclResult_t wait_for_all(const ncclComm& comm) {
  World& world = *comm.world;
  const auto result = wait_on_board(world, "ncclCommInitRank", [&] { return absent_ranks(world); });
  {
    std::lock_guard lock(worlds().mutex);
    worlds().open.erase(world.name);
  }
  world.board.unlink();
  if (result != ncclSuccess) return result;
  start_watcher(world);
  return check_gpus(world, comm.rank);
}

void post_split(ncclComm& parent, const SplitArgs& args) {
  const std::uint32_t number = ++parent.splits;
  auto& entry = parent.world->board.rank(parent.rank).splits[number % 2];
  entry.color = args.color;
  entry.key = args.key;
  entry.number.store(number);
  parent.world->board.announce();
}

ncclResult_t join_split(ncclComm& parent, const SplitArgs& args, ncclComm** comm) {
  World& world = *parent.world;
  const std::uint32_t number = parent.splits;
  *comm = nullptr;
  const auto result = wait_on_board(world, "ncclCommSplit", [&] { return ranks_without_split(world, number); });
  if (result != ncclSuccess || args.color == NCCL_SPLIT_NOCOLOR) return result;
  std::vector<std::pair<int, int>> members;  // key, rank in the parent
  for (int rank = 0; rank < world.ranks; ++rank) {
    const auto& entry = world.board.rank(rank).splits[number % 2];
    if (entry.color == args.color) members.emplace_back(entry.key, rank);
  }
  std::sort(members.begin(), members.end());
  const auto me = std::find(members.begin(), members.end(), std::pair(args.key, parent.rank));
  ncclResult_t error = ncclSuccess;
  *comm = join_world({.name = world.name + "-" + std::to_string(number) + "-" + std::to_string(args.color),
                      .ranks = static_cast<int>(members.size()),
                      .rank = static_cast<int>(me - members.begin()),
                      .device = parent.device},
                     error);
  return error;
}

ncclResult_t refuse(ncclResult_t result, const std::string& text, Finding finding) {
  last_error_text() = text;
  report(finding, text);
  return result;
}

const char* last_error() {
  return last_error_text().c_str();
}

ncclResult_t check_comm(const ncclComm* comm, const char* function) {
  if (const auto result = check_alive(comm, function)) return result;
  if (comm->joining) {
    return refuse(ncclInvalidUsage, std::string(function) +
                                        ": the communicator is still being made (ncclCommGetAsyncError has not said "
                                        "that it is done)");
  }
  return ncclSuccess;
}

ncclResult_t check_alive(const ncclComm* comm, const char* function) {
  const std::string name = function;
  if (!comm) return refuse(ncclInvalidArgument, name + ": the communicator is null");
  if (!comm->alive) return refuse(ncclInvalidArgument, name + ": the communicator was destroyed");
  return ncclSuccess;
}

std::string unique_name() {
  static std::atomic<int> counter = 0;
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) random = 0;
  return "gpusim-nccl-" + std::to_string(getpid()) + "-" + std::to_string(++counter) + "-" + hex(random);
}

std::string list_of(const std::vector<int>& ranks) {
  if (ranks.empty()) return "nobody";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace gpusim
