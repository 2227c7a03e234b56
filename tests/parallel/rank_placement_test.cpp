// How ranks lie on processes, and how messages name them.
#include "parallel/rank_placement.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

std::string refusal(const Mesh& mesh, int processes) {
  try {
    place_ranks(mesh, processes, "mpirun");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RankPlacement, NeighboursLieTogether) {
  const RankPlacement placement = place_ranks({.data = 2, .tensor = 4}, 2, "mpirun");
  EXPECT_EQ(placement, (RankPlacement{.processes = 2, .ranks_each = 4}));
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(placement.process_of(rank), rank / 4);
  EXPECT_EQ(placement.first_of(1), 4);
}

TEST(RankPlacement, IsSaid) {
  EXPECT_EQ(to_string({.processes = 2, .ranks_each = 2}), "4 ranks in 2 processes: 0 and 1, 2 and 3");
  EXPECT_EQ(to_string({.processes = 2, .ranks_each = 1}), "2 ranks in 2 processes: 0, 1");
  EXPECT_EQ(to_string({.processes = 8, .ranks_each = 4}), "32 ranks in 8 processes: 0 to 3, 4 to 7, .., 28 to 31");
}

TEST(RankPlacement, AProcessIsNamedByItsRanks) {
  EXPECT_EQ(name_of_process({.processes = 4, .ranks_each = 1}, 3), "rank 3");
  EXPECT_EQ(name_of_process({.processes = 4, .ranks_each = 2}, 3), "process 3 (ranks 6 and 7)");
  EXPECT_EQ(name_of_process({.processes = 4, .ranks_each = 4}, 1), "process 1 (ranks 4 to 7)");
}

TEST(RankPlacement, WhatDoesNotDivideIsRefusedWithWhatWould) {
  EXPECT_EQ(
      refusal({.data = 3}, 2),
      "dp 3 x tp 1 x pp 1 is 3 ranks, which do not divide among the 2 processes of mpirun; 1 or 3 processes, or a "
      "plan of 2 or 4 ranks, would work");
  EXPECT_EQ(refusal({.data = 2, .pipeline = 6}, 5),
            "dp 2 x tp 1 x pp 6 is 12 ranks, which do not divide among the 5 processes of mpirun; 4 or 6 processes, or "
            "a plan of 10 or 15 ranks, would work");
  EXPECT_EQ(refusal({}, 2),
            "dp 1 x tp 1 x pp 1 is 1 rank, which does not divide among the 2 processes of mpirun; 1 process, or a plan "
            "of 2 ranks, would work");
}

}  // namespace
}  // namespace trifold
