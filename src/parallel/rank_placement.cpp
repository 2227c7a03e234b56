#include "parallel/rank_placement.h"

#include "core/error.h"

namespace trifold {
namespace {

std::string ranks_of_process(const RankPlacement& placement, int process) {
  const int first = placement.first_of(process);
  const int last = first + placement.ranks_each - 1;
  if (first == last) return std::to_string(first);
  return fmt::format("{} {} {}", first, placement.ranks_each == 2 ? "and" : "to", last);
}

// The nearest numbers of processes among which so many ranks divide.
std::string processes_that_work(int ranks, int processes) {
  int fewer = processes;
  while (ranks % fewer != 0) --fewer;
  int more = processes;
  while (more < ranks && ranks % more != 0) ++more;
  const std::string first = fmt::format("{} process{}", fewer, fewer == 1 ? "" : "es");
  return more > ranks || fewer == more ? first : fmt::format("{} or {} processes", fewer, more);
}

std::string ranks_that_work(int ranks, int processes) {
  const int fewer = ranks / processes * processes;
  return fewer == 0 ? fmt::format("{} ranks", processes) : fmt::format("{} or {} ranks", fewer, fewer + processes);
}

}  // namespace

std::string name_of_process(const RankPlacement& placement, int process) {
  if (placement.ranks_each == 1) return fmt::format("rank {}", process);
  return fmt::format("process {} (ranks {})", process, ranks_of_process(placement, process));
}

std::string to_string(const RankPlacement& placement) {
  constexpr int kShown = 4;
  std::string text = fmt::format("{} rank{} in {} process{}: ", placement.ranks(), placement.ranks() == 1 ? "" : "s",
                                 placement.processes, placement.processes == 1 ? "" : "es");
  for (int process = 0; process < placement.processes; ++process) {
    if (placement.processes > kShown && process == kShown - 2) {
      text += ", ..";
      process = placement.processes - 1;
    }
    text += (process == 0 ? "" : ", ") + ranks_of_process(placement, process);
  }
  return text;
}

RankPlacement place_ranks(const Mesh& mesh, int processes, const std::string& starter) {
  const int ranks = mesh.size();
  if (ranks % processes != 0)
    fail_input(
        "dp {} x tp {} x pp {} is {} rank{}, which {} not divide among the {} processes of {}; {}, or a plan of {}, "
        "would work",
        mesh.data, mesh.tensor, mesh.pipeline, ranks, ranks == 1 ? "" : "s", ranks == 1 ? "does" : "do", processes,
        starter, processes_that_work(ranks, processes), ranks_that_work(ranks, processes));
  return {.processes = processes, .ranks_each = ranks / processes};
}

}  // namespace trifold
