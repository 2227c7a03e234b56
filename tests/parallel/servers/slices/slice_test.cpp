// Slices cover their tensors once, in order, and are as equal as they can be.
#include "parallel/servers/slices/slice.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

TEST(Slice, ATensorThatFitsIsOneSliceAndALargerOneIsCutEvenly) {
  const std::vector<ServedTensor> tensors = {{"a", 10}, {"none", 0}, {"b", 11}, {"c", 20}, {"d", 21}};
  EXPECT_EQ(cut_into_slices(tensors, 10),
            (std::vector<Slice>{
                {0, 0, 10}, {2, 0, 6}, {2, 6, 11}, {3, 0, 10}, {3, 10, 20}, {4, 0, 7}, {4, 7, 14}, {4, 14, 21}}));
}

TEST(Slice, SlicesOfUnevenTensorsDifferByOneElement) {
  for (const std::int64_t elements : {1, 7, 100, 101, 997}) {
    const std::vector<Slice> slices = cut_into_slices({{"w", elements}}, 13);
    EXPECT_EQ(static_cast<std::int64_t>(slices.size()), (elements + 12) / 13);
    std::int64_t next = 0;
    for (const Slice& slice : slices) {
      EXPECT_EQ(slice.begin, next);
      EXPECT_GE(slice.elements(), slices.back().elements());
      EXPECT_LE(slice.elements(), slices.back().elements() + 1);
      next = slice.end;
    }
    EXPECT_EQ(next, elements);
  }
}

TEST(Slice, AModelIsCutFineEnoughToBeSharedButNotFiner) {
  EXPECT_EQ(slice_limit({{"small", 10}}), 512);
  EXPECT_EQ(slice_limit({{"a", 1000000}, {"b", 560000}}), 3047);
  EXPECT_EQ(slice_limit({{"huge", std::int64_t{1} << 40}}), kSliceElements);
  EXPECT_EQ(cut_into_slices({{"w", 1000000}}).size(), 512u);
}

TEST(Slice, NamesTellTheTensorAndTheElements) {
  const std::vector<ServedTensor> tensors = {{"conv1.weight", 300000}, {"fc.bias", 10}};
  EXPECT_EQ(name_of({0, 0, 262144}, tensors), "conv1.weight[0:262144]");
  EXPECT_EQ(name_of({1, 0, 10}, tensors), "fc.bias[0:10]");
}

TEST(Slice, NonsenseIsRefused) {
  EXPECT_THROW(cut_into_slices({{"w", 10}}, -1), Error);
  EXPECT_THROW(cut_into_slices({{"w", -10}}, 5), Error);
}

}  // namespace
}  // namespace trifold
