// Where CMake found no MPI.
#include "parallel/communicator/mpi/mpi.h"

namespace trifold {

std::unique_ptr<Mpi> start_mpi() {
  fail_input(
      "this build of trifold has no MPI, which several processes need: run tools/setup (it installs libopenmpi-dev and "
      "openmpi-bin), delete the build folder and build again");
}

}  // namespace trifold
