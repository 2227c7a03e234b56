#include "parallel/tensor/shard.h"

#include <numeric>

#include <gtest/gtest.h>

namespace trifold {
namespace {

TEST(Shards, PutTogetherAreTheWhole) {
  const Shape shape{4, 6, 2, 3};
  std::vector<float> whole(static_cast<std::size_t>(shape.elements()));
  std::iota(whole.begin(), whole.end(), 0.0f);
  for (const int dim : {-1, 0, 1}) {
    std::vector<float> joined(whole.size(), -1.0f);
    for (int index = 0; index < 2; ++index) {
      const Shard shard{dim, index, 2};
      const std::vector<float> part = take_shard(whole, shape, shard);
      EXPECT_EQ(part.size(), dim < 0 ? whole.size() : whole.size() / 2);
      put_shard(part, shape, shard, joined);
    }
    EXPECT_EQ(joined, whole) << "dim " << dim;
  }
}

TEST(Shards, AreRunsOfTheirDimension) {
  const std::vector<float> whole = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(take_shard(whole, {2, 4}, {.dim = 1, .index = 1, .count = 2}), (std::vector<float>{2, 3, 6, 7}));
  EXPECT_EQ(take_shard(whole, {2, 4}, {.dim = 0, .index = 1, .count = 2}), (std::vector<float>{4, 5, 6, 7}));
}

TEST(Shards, MayBeBlocks) {
  const std::vector<float> whole = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<float> joined(whole.size(), -1.0f);
  for (const int row : {0, 1})
    for (const int column : {0, 1}) {
      const Shard shard{.dim = 0, .index = row, .count = 2, .column = column, .columns = 2};
      const std::vector<float> part = take_shard(whole, {2, 4}, shard);
      EXPECT_EQ(part[0], static_cast<float>(4 * row + 2 * column));
      EXPECT_EQ(part.size(), 2u);
      EXPECT_EQ(shard.whole_shape({1, 2}), (Shape{2, 4}));
      put_shard(part, {2, 4}, shard, joined);
    }
  EXPECT_EQ(joined, whole);
}

TEST(Shards, KnowWhereTheyAre) {
  const Shape shape{2, 4};
  using Indices = std::vector<std::uint32_t>;
  EXPECT_EQ(indices_of_shard(shape, {}), (Indices{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(indices_of_shard(shape, {.dim = 1, .index = 1, .count = 2}), (Indices{2, 3, 6, 7}));
  EXPECT_EQ(indices_of_shard(shape, {.dim = 0, .index = 1, .count = 2, .column = 1, .columns = 2}), (Indices{6, 7}));
}

}  // namespace
}  // namespace trifold
