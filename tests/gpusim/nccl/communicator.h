// Communicators: one ncclComm for each rank of this process, and the World they share, which also knows the ranks of
// other processes through the board. Neither is ever freed: work that was enqueued may still run after ncclCommDestroy,
// and the use of a destroyed communicator is seen.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <nccl.h>

#include "engine/library.h"
#include "nccl/shared_board.h"

namespace gpusim {

// A call of the API: one collective, one send or one receive.
struct Call {
  const char* function = "";
  NoteKind kind = NoteKind::collective;
  Signature signature = {};
  int peer = -1;
  const void* send = nullptr;  // null: this rank sends nothing
  std::size_t send_bytes = 0;
  void* receive = nullptr;  // null: this rank receives nothing
  std::size_t receive_bytes = 0;
};

// Calls that run as one operation (more than one: sends and receives of a group), each time they enter a stream.
struct Entry {
  OperationId id = 0;
  std::vector<Call> calls;
  std::vector<std::uint64_t> numbers;  // of each call, as in Note
  bool pinned = false;                 // its data is on the board
  bool failed = false;                 // reported; it does nothing more
  bool busy = false;                   // being asked whether it is ready

  // For the deadlock clock: how long it has been waited for without a pause, and what the missing had computed by then.
  std::chrono::steady_clock::time_point waited_since = {};
  std::chrono::steady_clock::time_point last_asked = {};
  std::uint64_t missing_cpu_ms = 0;
};

struct World;

}  // namespace gpusim

struct ncclComm {
  bool alive = true;
  bool aborted = false;
  bool joining = false;  // of a communicator that does not block: it was not yet seen that all ranks are there
  std::chrono::steady_clock::time_point joining_since = {};
  gpusim::World* world = nullptr;
  int rank = 0;
  int device = 0;
  ncclResult_t async_error = ncclSuccess;
  std::uint64_t calls = 0;  // of collectives, by the program; each may enter streams many times
  std::uint32_t splits = 0;
  std::shared_ptr<const int> held = std::make_shared<int>();  // by every operation, in a stream or in a graph
  // All below is guarded by the simulator's lock.
  std::uint64_t next_collective = 0;
  std::map<int, std::uint64_t> next_send;  // by peer
  std::map<int, std::uint64_t> next_receive;
  std::map<gpusim::OperationId, gpusim::Entry> entries;  // enqueued and not run yet
  gpusim::OperationId last = 0;
};

namespace gpusim {

struct World {
  World(const std::string& board_name, int rank_count) : name(board_name), ranks(rank_count), board(name, ranks) {}

  std::string name;
  int ranks = 0;
  SharedBoard board;
  std::vector<ncclComm*> local = std::vector<ncclComm*>(static_cast<std::size_t>(ranks));  // null: another process's
  bool has_watcher = false;
  std::set<std::uint64_t> mismatches;                // collectives already reported
  std::map<std::uint64_t, std::thread::id> callers;  // of the collectives called outside of groups
  bool caller_reported = false;

  bool is_local(int rank) const { return local[static_cast<std::size_t>(rank)] != nullptr; }
};

struct JoinArgs {
  std::string name;
  int ranks = 0;
  int rank = 0;
  int device = current_device();
};
// Takes the rank's place; does not wait for the others. Null after a report (`error` says what to return).
ncclComm* join_world(const JoinArgs& args, ncclResult_t& error);
// Waits until all ranks are there.
ncclResult_t wait_for_all(const ncclComm& comm);
// Of a communicator that does not block: ncclInProgress until all are there.
ncclResult_t ask_for_all(ncclComm& comm);

struct SplitArgs {
  int color = 0;
  int key = 0;
};
void post_split(ncclComm& parent, const SplitArgs& args);
// Waits for the parent's ranks and joins the new world, without waiting there. *comm is null for NCCL_SPLIT_NOCOLOR.
ncclResult_t join_split(ncclComm& parent, const SplitArgs& args, ncclComm** comm);

// Reports, keeps the text for ncclGetLastError and returns `result`.
ncclResult_t refuse(ncclResult_t result, const std::string& text, Finding finding = Finding::invalid_call);
const char* last_error();

ncclResult_t check_comm(const ncclComm* comm, const char* function);
ncclResult_t check_alive(const ncclComm* comm, const char* function);  // it may still be in the making

std::string unique_name();
std::string list_of(const std::vector<int>& ranks);  // "ranks 0, 2"

}  // namespace gpusim
