// How this process was started: alone, or as one of the processes that make up a job.
#pragma once

#include <functional>
#include <string>

namespace trifold {

struct Launch {
  enum class By {
    alone,
    mpi,         // mpirun or srun: MPI finds the others
    rendezvous,  // variables that say where process 0 can be met
  };
  By by = By::alone;
  std::string starter;  // "mpirun", "srun", "RANK and WORLD_SIZE", "TF_CONFIG": for messages
  int rank = 0;         // of this process
  int size = 1;         // processes
  std::string host;     // of process 0, for a rendezvous
  int port = 0;

  bool operator==(const Launch&) const = default;
};

// A variable's value, or null.
using Environment = std::function<const char*(const char* name)>;

// Throws where the variables contradict themselves, or name a launch that cannot work.
Launch find_launch(const Environment& environment);

// For commands that run every rank in their own process.
void refuse_several_processes(const char* command);

}  // namespace trifold
