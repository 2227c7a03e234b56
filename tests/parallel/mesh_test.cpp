#include "parallel/mesh.h"

#include <set>

#include <gtest/gtest.h>

namespace trifold {
namespace {

TEST(MeshPlaces, AreOneForEveryRank) {
  const Mesh mesh{.data = 2, .pipeline = 3, .tensor = 4};
  ASSERT_EQ(mesh.size(), 24);
  std::set<std::tuple<int, int, int>> seen;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const MeshPlace place = place_of(mesh, rank);
    EXPECT_EQ(rank_of(mesh, place), rank);
    seen.insert({place.data, place.pipeline, place.tensor});
  }
  EXPECT_EQ(seen.size(), 24u);
  // Who shares layers sits side by side.
  EXPECT_EQ(place_of(mesh, 5), (MeshPlace{.data = 0, .pipeline = 1, .tensor = 1}));
}

TEST(MeshPlaces, AreNamedByTheAxesThatCount) {
  EXPECT_EQ(to_string(Mesh{}), "single");
  EXPECT_EQ(to_string(Mesh{.data = 2, .pipeline = 1, .tensor = 4}), "dp=2 tp=4");
}

}  // namespace
}  // namespace trifold
