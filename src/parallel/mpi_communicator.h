// Communicators over MPI's non-blocking collectives, and what those of a process share. MPI's own sums may be made in
// any order; here ranks exchange the terms and each adds up its part in the order of ranks, which moves as many bytes
// as a ring and gives the bits that ranks in one process get. Included only by files that know MPI's header.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <mpi.h>

#include "parallel/mpi.h"

namespace trifold {

void check_mpi(int code, const char* call);

#define TRIFOLD_MPI_CALL(function, ...) check_mpi(function(__VA_ARGS__), #function)

int mpi_count(std::size_t count);  // MPI counts in int

class MpiCommunicator;

// What the communicators of a process share. MPI advances its work only when it is called, so whoever waits advances
// everything that is on its way.
struct MpiEngine {
  mutable std::mutex mutex;  // one thread at a time calls MPI
  std::vector<MpiCommunicator*> communicators;
  std::optional<RankStatus::Waiting> waiting;
  Watch* watch = nullptr;
  std::chrono::milliseconds patience = std::chrono::minutes(5);

  void advance();
  RankStatus status() const;  // of this process's rank
  void stop_if_ended() const {
    if (watch != nullptr) watch->stop_if_ended();
  }
};

// Of this process's rank, in the group that MPI's communicator joins.
std::unique_ptr<Communicator> make_mpi_communicator(std::shared_ptr<MpiEngine> engine, MPI_Comm communicator,
                                                    Mpi::GroupArgs args);

}  // namespace trifold
