// Which layers are synchronised when.
#include "runtime/cluster/partial_sync.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

std::vector<ServedTensor> network() {
  return {{.name = "conv1.weight", .elements = 30},  {.name = "conv1.bias", .elements = 3},
          {.name = "bn.scale", .elements = 5},       {.name = "bn.running_mean", .elements = 5, .trained = false},
          {.name = "conv2.weight", .elements = 100}, {.name = "fc.weight", .elements = 60},
          {.name = "fc.bias", .elements = 10}};
}

std::vector<ServedTensor> assigned(const ServerSync& sync) {
  std::vector<ServedTensor> tensors = network();
  assign_turns(tensors, sync, {10}, "job.json");
  return tensors;
}

// By tensor: every/turn.
std::string text_of(const std::vector<ServedTensor>& tensors) {
  std::string text;
  for (const ServedTensor& tensor : tensors)
    text += fmt::format("{}{}/{}", text.empty() ? "" : " ", tensor.turns.every, tensor.turns.turn);
  return text;
}

TEST(PartialSyncTest, LayersTakeTurnsInGroupsOfAboutOneSize) {
  EXPECT_EQ(text_of(assigned({})), "1/0 1/0 1/0 1/0 1/0 1/0 1/0");
  // conv2 has 100, fc 70, conv1 33 and bn 5 numbers.
  EXPECT_EQ(text_of(assigned({.rotate = 2})), "2/1 2/1 2/0 1/0 2/0 2/1 2/1");
  EXPECT_EQ(text_of(assigned({.rotate = 4})), "4/2 4/2 4/3 1/0 4/0 4/1 4/1");
  EXPECT_EQ(assigned({.rotate = 2})[0].turns.all_before, std::vector<std::int64_t>{10});
}

TEST(PartialSyncTest, ChosenLayersAreOfEveryClockAndOthersOfTheirTurnsOrNone) {
  EXPECT_EQ(text_of(assigned({.layers = {"conv*"}})), "1/0 1/0 0/0 1/0 1/0 0/0 0/0");
  EXPECT_EQ(text_of(assigned({.layers = {"conv*"}, .rotate = 2})), "1/0 1/0 2/1 1/0 1/0 2/0 2/0");
}

TEST(PartialSyncTest, IsSaidInWords) {
  EXPECT_EQ(describe_turns(assigned({})), "");
  EXPECT_EQ(describe_turns(assigned({.rotate = 2})),
            "synchronised in turns of 2: bn, conv2 (105 numbers) | conv1, fc (103 numbers)");
  EXPECT_EQ(describe_turns(assigned({.layers = {"conv*"}})),
            "synchronised in every step: conv1, conv2; only where all are: bn, fc");
}

std::string refusal(const ServerSync& sync) {
  try {
    assigned(sync);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PartialSyncTest, WhatCannotBeIsSaid) {
  EXPECT_EQ(refusal({.layers = {"conv*", "dense"}}),
            "job.json: plan.sync.layers names \"dense\", but no layer with parameters has such an id: there are "
            "conv1, bn, conv2, fc");
  EXPECT_EQ(refusal({.layers = {"*"}}),
            "job.json: plan.sync.layers names all layers, which is what happens without it: leave it out");
  EXPECT_EQ(refusal({.layers = {"conv*"}, .rotate = 3}),
            "job.json: plan.sync.rotate is 3, and only 2 layers can take turns: set it to 2 or less");
}

}  // namespace
}  // namespace trifold
