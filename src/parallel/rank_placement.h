// How the ranks of a job lie on its processes: equally many on each, neighbours together. Those of the tensor axis,
// which talk most, are the nearest neighbours (mesh.h).
#pragma once

#include <string>

#include "parallel/mesh.h"

namespace trifold {

struct RankPlacement {
  int processes = 1;
  int ranks_each = 1;

  int ranks() const { return processes * ranks_each; }
  int first_of(int process) const { return process * ranks_each; }
  int process_of(int rank) const { return rank / ranks_each; }
  bool operator==(const RankPlacement&) const = default;
};

// As messages name a process: "rank 3"; where it has several, "process 1 (ranks 4 to 7)".
std::string name_of_process(const RankPlacement& placement, int process);

std::string to_string(const RankPlacement& placement);  // "4 ranks in 2 processes: 0 and 1, 2 and 3"

// Refuses a mesh whose ranks do not divide among the processes, with what would work. `starter` made the processes:
// "mpirun".
RankPlacement place_ranks(const Mesh& mesh, int processes, const std::string& starter);

}  // namespace trifold
