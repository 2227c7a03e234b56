#include "parallel/rank_groups.h"

#include "parallel/communicator/local_communicator.h"

namespace trifold {
namespace {

int& position_along(MeshPlace& place, Axis axis) {
  return axis == Axis::data ? place.data : axis == Axis::tensor ? place.tensor : place.pipeline;
}

}  // namespace

std::vector<std::unique_ptr<RankGroups>> make_rank_groups(const Mesh& mesh, int first, int count,
                                                          const MakeGroup& make_group) {
  std::vector<RankGroups::Communicators> communicators(static_cast<std::size_t>(count));
  for (const Axis axis : {Axis::data, Axis::tensor, Axis::pipeline}) {
    for (int rank = 0; rank < mesh.size(); ++rank) {
      MeshPlace place = place_of(mesh, rank);
      if (place.along(axis) > 0) continue;  // a group has one first member
      std::vector<int> ranks;
      for (int& position = position_along(place, axis); position < mesh.size(axis); ++position)
        ranks.push_back(rank_of(mesh, place));
      std::vector<std::unique_ptr<Communicator>> members = make_group(axis, ranks);
      std::size_t next = 0;
      for (const int member : ranks)
        if (member >= first && member < first + count)
          communicators[static_cast<std::size_t>(member - first)][static_cast<std::size_t>(axis)] =
              std::move(members[next++]);
    }
  }
  std::vector<std::unique_ptr<RankGroups>> ranks;
  for (int rank = first; rank < first + count; ++rank)
    ranks.push_back(
        std::make_unique<RankGroups>(mesh, rank, std::move(communicators[static_cast<std::size_t>(rank - first)])));
  return ranks;
}

std::vector<std::unique_ptr<RankGroups>> make_local_ranks(const Mesh& mesh) {
  return make_rank_groups(mesh, 0, mesh.size(), [](Axis, const std::vector<int>& ranks) {
    return make_local_group({.size = static_cast<int>(ranks.size())});
  });
}

}  // namespace trifold
