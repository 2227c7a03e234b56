// A slice of a tensor that is not synchronised in every clock: between its turns nothing is expected of anybody.
#include "core/error.h"
#include "parallel/servers/server/slice_fixture.h"

namespace trifold {
namespace {

using namespace test;
using Mode = ConsistencyRules::Mode;
using ServedSliceTurnsTest = SliceFixture;
using Taken = ServedSlice::Taken;
using Values = std::vector<float>;

ServedTensor third_of_clocks(std::vector<std::int64_t> all_before = {}) {
  return {.name = "w", .elements = 2, .turns = {.every = 3, .turn = 1, .all_before = std::move(all_before)}};
}

TEST_F(ServedSliceTurnsTest, RoundsAreThoseOfItsTurns) {
  ServedSlice slice = make({}, 2, third_of_clocks());
  EXPECT_TRUE(slice.ready_for(1));
  EXPECT_FALSE(slice.ready_for(2));
  EXPECT_EQ(slice.push(push(0, 1, 2)), Taken::waits);
  EXPECT_EQ(slice.push(push(1, 1, 4)), Taken::applied);
  EXPECT_EQ(*slice.state().values, (Values{7, 4}));
  EXPECT_EQ(slice.state().updates, 1);
  EXPECT_TRUE(slice.ready_for(4));
  EXPECT_FALSE(slice.ready_for(5));
  EXPECT_EQ(slice.push(push(0, 4, 1)), Taken::waits);
  EXPECT_EQ(slice.push(push(1, 1, 4)), Taken::repeated);
  EXPECT_THROW(slice.push(push(1, 3, 4)), Error);
}

// Who does the clock of the last update again, in place of one that is lost, gets what that one had; who does a later
// one gets what came of it.
TEST_F(ServedSliceTurnsTest, OnlyWhoRepeatsItsTurnGetsTheValuesOfBefore) {
  ServedSlice slice = make({}, 1, third_of_clocks());
  slice.push(push(0, 1, 2));
  EXPECT_EQ(slice.values_for(1), (Values{10, 10}));
  EXPECT_EQ(slice.values_for(2), (Values{8, 6}));
  EXPECT_EQ(slice.values_for(4), (Values{8, 6}));
}

TEST_F(ServedSliceTurnsTest, SspCountsTheClocksOfWhatIsDue) {
  ServedSlice slice = make({.mode = Mode::ssp, .staleness = 2}, 2, third_of_clocks());
  EXPECT_EQ(slice.push(push(0, 1, 2)), Taken::applied);
  EXPECT_EQ(slice.staleness_for(1), 0);  // of clock 1 and before nothing is missing
  EXPECT_EQ(slice.staleness_for(2), 2);
  EXPECT_TRUE(slice.ready_for(2));
  EXPECT_FALSE(slice.ready_for(3));  // shard 1's push of clock 1 is, and it may still be in clock 0
  EXPECT_EQ(slice.push(push(1, 1, 2)), Taken::applied);
  EXPECT_EQ(slice.staleness_for(4), 0);
  EXPECT_TRUE(slice.ready_for(4));
}

TEST_F(ServedSliceTurnsTest, ACutBetweenTurnsIsTheStateOfTheLastOne) {
  ServedSlice slice = make({.cut_every = {1}}, 1, third_of_clocks());
  slice.push(push(0, 1, 2));
  slice.push(push(0, 4, 1));
  ASSERT_EQ(*slice.state().values, (Values{7, 4}));
  for (const std::int64_t cut : {2, 3, 4}) {
    ASSERT_NE(slice.state_at(cut), nullptr) << cut;
    EXPECT_EQ(*slice.state_at(cut)->values, (Values{8, 6})) << cut;
  }
  EXPECT_EQ(*slice.state_at(5)->values, (Values{7, 4}));
  EXPECT_EQ(slice.state_at(8), nullptr);               // clock 7 is missing
  EXPECT_EQ(slice.push(push(0, 7, 1)), Taken::waits);  // three cuts are unread
  EXPECT_TRUE(slice.release(3));
  EXPECT_NE(slice.state_at(4), nullptr);
  EXPECT_EQ(*slice.state().values, (Values{6, 2}));
}

// Every push is an update of its own: whoever is ahead waits where the others are to be brought together.
TEST_F(ServedSliceTurnsTest, AsyncPushesBeyondACutWaitForIt) {
  ServedSlice slice = make({.mode = Mode::async, .cut_every = {6}}, 2, third_of_clocks({6}));
  for (const std::int64_t clock : {1, 4, 5}) EXPECT_EQ(slice.push(push(0, clock, 2)), Taken::applied);
  EXPECT_EQ(slice.push(push(0, 7, 2)), Taken::waits);
  EXPECT_EQ(slice.push(push(1, 1, 2)), Taken::applied);
  EXPECT_EQ(slice.push(push(1, 4, 2)), Taken::applied);
  EXPECT_EQ(slice.state_at(6), nullptr);
  EXPECT_EQ(slice.push(push(1, 5, 2)), Taken::applied);
  EXPECT_EQ(*slice.state_at(6)->values, (Values{4, -2}));
  EXPECT_EQ(*slice.state().values, (Values{3, -4}));
}

}  // namespace
}  // namespace trifold
