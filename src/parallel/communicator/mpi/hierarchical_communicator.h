// Communicators of a group whose ranks lie in several processes, one or more in each: ranks of a process meet in its
// memory, then the processes exchange once for all of their ranks, and each gives its ranks what came. So a tensor that
// every rank gets crosses between processes once for each process, not once for each rank. Sums are made in the order
// of ranks (sum_chain.h): they have the bits that ranks in one process get. Included only by files that know MPI's
// header.
#pragma once

#include <memory>
#include <vector>

#include "parallel/communicator/mpi/mpi.h"
#include "parallel/communicator/mpi/mpi_engine.h"

namespace trifold {

// Of this process's ranks, in the group whose processes MPI's communicator joins, in the order of their ranks.
std::vector<std::unique_ptr<Communicator>> make_hierarchical_group(const std::shared_ptr<MpiEngine>& engine,
                                                                   MPI_Comm processes, const Mpi::GroupArgs& args);

}  // namespace trifold
