// States of slices as messages: nothing is lost on the way, and what is no state is refused.
#include "parallel/servers/server/state_message.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

using Numbers = std::vector<float>;

SharedFloats floats(Numbers values) {
  return std::make_shared<Numbers>(std::move(values));
}

// Two slices of a trained tensor with one state, and one of a statistic.
ServedLayout layout() {
  return {.tensors = {{.name = "w", .elements = 4}, {.name = "mean", .elements = 1, .trained = false}},
          .slices = {{0, 0, 2}, {0, 2, 4}, {1, 0, 1}},
          .states = 1,
          .shards = 2};
}

SliceState state(float value) {
  return {.values = floats({value, value + 1}),
          .states = {floats({value + 2, value + 3})},
          .version = 7,
          .updates = 5,
          .applied = {5, 6}};
}

TEST(StateMessageTest, CarriesStatesAndWhereAskedTheirHistory) {
  SliceState first = state(1);
  first.before = floats({0, 0.5F});
  first.choice = {.clock = 4, .shard = 1};
  first.left_out = {{2, {0, 1}}, {3, {1}}};
  first.cuts.emplace(4, std::make_shared<SliceState>(state(20)));
  const SliceState statistic{.values = floats({9}), .version = 1, .applied = {0, 0}};
  Message message;
  put_states(message, {{0, first}, {2, statistic}}, layout(), true);
  const std::vector<NumberedState> taken = take_states(message, layout());
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].first, 0);
  EXPECT_EQ(*taken[0].second.values, (Numbers{1, 2}));
  EXPECT_EQ(*taken[0].second.states.at(0), (Numbers{3, 4}));
  EXPECT_EQ(*taken[0].second.before, (Numbers{0, 0.5F}));
  EXPECT_EQ(taken[0].second.version, 7);
  EXPECT_EQ(taken[0].second.updates, 5);
  EXPECT_EQ(taken[0].second.choice, first.choice);
  EXPECT_EQ(taken[0].second.left_out, first.left_out);
  EXPECT_EQ(taken[0].second.applied, (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(*taken[0].second.cuts.at(4)->values, (Numbers{20, 21}));
  EXPECT_EQ(*taken[1].second.values, (Numbers{9}));
  EXPECT_TRUE(taken[1].second.states.empty());

  put_states(message, {{0, first}}, layout());
  EXPECT_EQ(take_states(message, layout())[0].second.before, nullptr);
  EXPECT_TRUE(take_states(message, layout())[0].second.cuts.empty());
}

TEST(StateMessageTest, RefusesWhatIsNoState) {
  Message good;
  put_states(good, {{1, state(1)}}, layout());
  const auto refuses = [&](const auto& change) {
    Message message = good;
    change(message);
    EXPECT_THROW(take_states(message, layout()), Error) << message.fields.dump();
  };
  refuses([](Message& m) { m.fields["slices"][0]["slice"] = 3; });
  refuses([](Message& m) { m.fields["slices"][0]["slice"] = -1; });
  refuses([](Message& m) { m.fields["slices"][0]["applied"] = {1}; });
  refuses([](Message& m) { m.fields["slices"][0].erase("version"); });
  refuses([](Message& m) { m.fields["slices"][0]["before"] = true; });
  refuses([](Message& m) { m.fields["slices"][0]["cut"] = 4; });
  refuses([](Message& m) { m.fields.erase("slices"); });
  refuses([](Message& m) { m.payload = m.payload.part(0, m.payload.size() - 4); });
  refuses([](Message& m) { m.payload = Payload::own(Numbers(9)); });
}

}  // namespace
}  // namespace trifold
