// MPI in this process: how it meets the others, the communicators it makes, its end. MPI's header is known to mpi.cpp
// and to what includes mpi_engine.h.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/communicator/communicator.h"
#include "parallel/processes/rank_status.h"
#include "parallel/processes/wait_board.h"
#include "parallel/processes/watch.h"

namespace trifold {

class Mpi {
 public:
  Mpi() = default;
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;
  virtual ~Mpi() = default;

  // Processes that were started apart become one world; the watch carries what they must know of each other.
  virtual void join(Watch& watch, int rank, int size) = 0;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int processes_here() const = 0;                             // on this machine
  virtual std::string from_first(const std::string& text) const = 0;  // process 0's

  virtual WaitBoard& board() = 0;                          // of this process's ranks
  virtual std::map<int, RankStatus> statuses() const = 0;  // of them, as far as they have called anything

  struct GroupArgs {
    std::string name;            // the same for all its members, and no other group's
    std::vector<int> ranks;      // in the group's order: as messages name its members
    std::vector<int> processes;  // of each of them; those of one process follow each other
    bool check_calls = false;    // that all ranks call the same: one more exchange for each
  };
  // Of the group's ranks in this process. Every process of the group makes it at the same time, and all groups in the
  // same order.
  virtual std::vector<std::unique_ptr<Communicator>> make_group(const GroupArgs& args) = 0;

  // Ends MPI. A process that fails leaves that out: it would wait for the others.
  virtual void finalize() = 0;
};

// Starts MPI. mpirun or srun has made this process one of several, or it is alone until join(). Throws where this build
// has no MPI.
std::unique_ptr<Mpi> start_mpi();

}  // namespace trifold
