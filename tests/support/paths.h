// Where this tree is, and what was built of it or found for the tests. Only paths.cpp is compiled anew where a clone
// has another place.
#pragma once

#include <filesystem>
#include <string>

namespace trifold::test {

std::filesystem::path source_dir();
std::string program_path();    // of trifold
std::string mpirun_path();     // empty: there is no MPI
std::string mpi_ranks_path();  // likewise
std::string kill_at_path();    // what fault tests preload
std::string nvtx_log_path();   // the tool that NVTX loads; empty: there is no CUDA

}  // namespace trifold::test
