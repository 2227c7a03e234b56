#include "parallel/rank_groups.h"

#include "parallel/local_communicator.h"

namespace trifold {
namespace {

// Ranks that differ in this axis only share a group. Its first member stands for all of them.
MeshPlace first_of_group(MeshPlace place, Axis axis) {
  (axis == Axis::data ? place.data : axis == Axis::tensor ? place.tensor : place.pipeline) = 0;
  return place;
}

}  // namespace

std::vector<std::unique_ptr<RankGroups>> make_local_ranks(const Mesh& mesh) {
  std::vector<RankGroups::Communicators> communicators(static_cast<std::size_t>(mesh.size()));
  for (const Axis axis : {Axis::data, Axis::tensor, Axis::pipeline}) {
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const MeshPlace place = place_of(mesh, rank);
      if (place != first_of_group(place, axis)) continue;
      std::vector<std::unique_ptr<Communicator>> group = make_local_group({.size = mesh.size(axis)});
      for (int member = 0; member < mesh.size(); ++member) {
        const MeshPlace other = place_of(mesh, member);
        if (first_of_group(other, axis) != place) continue;
        communicators[static_cast<std::size_t>(member)][static_cast<std::size_t>(axis)] =
            std::move(group[static_cast<std::size_t>(other.along(axis))]);
      }
    }
  }
  std::vector<std::unique_ptr<RankGroups>> ranks;
  for (int rank = 0; rank < mesh.size(); ++rank)
    ranks.push_back(std::make_unique<RankGroups>(mesh, rank, std::move(communicators[static_cast<std::size_t>(rank)])));
  return ranks;
}

}  // namespace trifold
