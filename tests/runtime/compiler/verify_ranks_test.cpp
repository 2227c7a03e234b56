// The verifier refuses ranks that would wait for each other for ever.
#include <initializer_list>

#include <gtest/gtest.h>

#include "kernels/ops/collective.h"
#include "runtime/compiler/verify.h"
#include "runtime/compiler/verify_fixture.h"

namespace trifold::test {
namespace {

Program with_sums(std::initializer_list<Axis> axes) {
  Program program;
  for (const Axis axis : axes) {
    AllReduce sum;
    sum.axis = axis;
    program.graph.nodes.push_back({made(sum), {}, {}, Phase::forward, -1});
  }
  return program;
}

TEST(VerifyExchanges, RefusesAMeetingThatAnotherRankDoesNotHave) {
  const Program two = with_sums({Axis::tensor, Axis::tensor});
  const Program one = with_sums({Axis::tensor});
  const std::string sentence = "'all_reduce' is an exchange that another rank does not have";
  expect_refused([&] { verify_exchanges(two, one, Axis::tensor, "a pass"); }, sentence);
  expect_refused([&] { verify_exchanges(one, two, Axis::tensor, "a pass"); }, sentence);
}

TEST(VerifyExchanges, RefusesMeetingsInAnotherOrder) {
  Program first = with_sums({Axis::tensor});
  Program second = with_sums({Axis::tensor});
  first.graph.nodes.push_back({made(GatherChannels{}), {}, {}, Phase::forward, -1});
  second.graph.nodes.insert(second.graph.nodes.begin(), {made(GatherChannels{}), {}, {}, Phase::forward, -1});
  expect_refused([&] { verify_exchanges(first, second, Axis::tensor, "a pass"); },
                 "'all_reduce' meets 'gather_channels' of another rank");
}

TEST(VerifyExchanges, LooksAlongOneAxis) {
  EXPECT_NO_THROW(
      verify_exchanges(with_sums({Axis::tensor}), with_sums({Axis::tensor, Axis::data}), Axis::tensor, "a pass"));
}

}  // namespace
}  // namespace trifold::test
