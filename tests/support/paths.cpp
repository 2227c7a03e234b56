#include "support/paths.h"

namespace trifold::test {

std::filesystem::path source_dir() {
  return TRIFOLD_SOURCE_DIR;
}

std::string program_path() {
  return TRIFOLD_PROGRAM;
}

std::string mpirun_path() {
  return TRIFOLD_MPIRUN;
}

std::string mpi_ranks_path() {
  return TRIFOLD_MPI_RANKS;
}

std::string kill_at_path() {
  return TRIFOLD_KILL_AT;
}

std::string nvtx_log_path() {
  return TRIFOLD_NVTX_LOG;
}

}  // namespace trifold::test
