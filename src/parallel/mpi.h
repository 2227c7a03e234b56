// MPI in this process: how it meets the others, the communicators it makes, its end. Only mpi.cpp and mpi_communicator
// know MPI's header.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/rank_status.h"
#include "parallel/watch.h"

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

  // From now on waits end when the job does, and a wait longer than `patience` is reported. Null: no more.
  virtual void set_watch(Watch* watch, std::chrono::milliseconds patience) = 0;
  virtual RankStatus status() const = 0;

  struct GroupArgs {
    std::string name;          // the same for all its members, and no other group's
    std::vector<int> ranks;    // of the world, in the group's order
    bool check_calls = false;  // that all ranks call the same: one more exchange for each
  };
  // Every process of the world makes its group at the same time.
  virtual std::unique_ptr<Communicator> make_group(GroupArgs args) = 0;

  // Ends MPI. A process that fails leaves that out: it would wait for the others.
  virtual void finalize() = 0;
};

// Starts MPI. mpirun or srun has made this process one of several, or it is alone until join(). Throws where this build
// has no MPI.
std::unique_ptr<Mpi> start_mpi();

}  // namespace trifold
