// A communicator of ranks that are one a process, over MPI's non-blocking collectives. MPI's own sums may be made in
// any order; here ranks exchange the terms and each adds up its part in the order of ranks, which moves as many bytes
// as a ring and gives the bits that ranks in one process get. Included only by files that know MPI's header.
#pragma once

#include <memory>

#include "parallel/communicator/mpi/mpi.h"
#include "parallel/communicator/mpi/mpi_engine.h"

namespace trifold {

// Of this process's rank, in the group that MPI's communicator joins.
std::unique_ptr<Communicator> make_mpi_communicator(std::shared_ptr<MpiEngine> engine, MPI_Comm communicator,
                                                    Mpi::GroupArgs args);

}  // namespace trifold
