// What the communicators of a process share of MPI: one lock around its calls, and the wait in which everything that is
// under way comes forward. Included only by files that know MPI's header.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <mpi.h>

#include "parallel/processes/wait_board.h"

namespace trifold {

void check_mpi(int code, const char* call);

#define TRIFOLD_MPI_CALL(function, ...) check_mpi(function(__VA_ARGS__), #function)

int mpi_count(std::size_t count);  // MPI counts in int

MPI_Comm duplicate(MPI_Comm communicator);
bool has_arrived(MPI_Request& request);

enum class MpiKind : int { all_reduce, reduce_scatter, all_gather, broadcast, all_to_all, barrier, send, receive };

// What a rank calls; all ranks of a collective must call the same.
struct MpiCall {
  MpiKind kind = MpiKind::barrier;
  int root = -1;           // of a message: the other rank
  std::int64_t bytes = 0;  // of all_reduce and broadcast: all of it; else a rank's part

  bool operator==(const MpiCall&) const = default;
};

std::string to_string(const MpiCall& call);

// A message between processes on its way.
struct MpiMessage {
  std::int64_t number = 0;
  MpiCall call = {};
  MPI_Request request = MPI_REQUEST_NULL;
};

// Sums of no more bytes take longer to announce than to move: every process gets all their terms at once.
inline constexpr std::size_t kSmallSum = std::size_t{16} << 10;

// `terms` are those of rank 0, of rank 1, ..; they are added in this order.
void add_up(const float* terms, std::size_t ranks, std::size_t count, float* sum);

// Work that needs no MPI: any rank that waits may do it, without the lock, while others do the next one.
struct MpiTask {
  std::function<void()> run;
  std::function<void()> done;  // called with the lock
};

// A group's exchanges. All are called with the engine's lock.
class MpiWork {
 public:
  virtual ~MpiWork() = default;
  virtual void advance() = 0;
  virtual std::optional<MpiTask> claim_task() { return std::nullopt; }
  virtual void add_calls(std::map<int, RankStatus>& by_rank) const = 0;
};

// MPI advances its work only when it is called, so whoever waits advances everything that is on its way.
class MpiEngine {
 public:
  mutable std::mutex mutex;  // one thread at a time calls MPI
  WaitBoard board;

  void add(MpiWork* work);
  void remove(MpiWork* work);

  struct Wait {
    int rank = 0;  // that waits
    // Both are called with the lock.
    std::function<bool()> finished;
    std::function<RankStatus::Waiting()> describe;
  };
  void wait(const Wait& wait);

  std::map<int, RankStatus> statuses() const;  // of this process's ranks

 private:
  bool help();

  std::vector<MpiWork*> works_;
  int tasks_running_ = 0;
};

}  // namespace trifold
