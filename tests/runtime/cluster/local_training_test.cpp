#include "runtime/cluster/local_training.h"

#include <map>

#include <gtest/gtest.h>

namespace trifold {
namespace {

// Servers with one weight and one statistic, which note what is handed out.
class NotingServers final : public ParameterExchange {
 public:
  bool need_parameter(int tensor, std::span<float> values) override {
    for (float& value : values) value = tensor == 0 ? 8.0F : 3.0F;
    return true;
  }
  void gradient_ready(int tensor, std::span<const float> values) override {
    pushed[tensor].assign(values.begin(), values.end());
  }
  std::map<int, std::vector<float>> pushed;
};

std::vector<ServedTensor> weight_and_statistic() {
  return {{.name = "weight", .elements = 2}, {.name = "mean", .elements = 1, .trained = false, .decays = false}};
}

const std::vector<bool> kAll = {true, true};

float value_of(LocalTraining& local, int tensor) {
  std::vector<float> values(tensor == 0 ? 2 : 1);
  local.need_parameter(tensor, values);
  return values.front();
}

TEST(LocalTrainingTest, APeriodIsPlainStepsWhoseGradientsAddUp) {
  NotingServers servers;
  LocalTraining local(weight_and_statistic(), {});
  local.begin(servers, kAll);
  for (const float gradient : {4.0F, -2.0F}) {
    local.next_step(0.5);
    local.gradient_ready(0, std::vector{gradient, 1.0F});
    local.gradient_ready(1, std::vector{5.0F});
  }
  EXPECT_EQ(value_of(local, 0), 7.0F);
  local.end(servers, kAll);
  EXPECT_EQ(servers.pushed.at(0), (std::vector{2.0F, 2.0F}));
  EXPECT_EQ(servers.pushed.at(1), std::vector{5.0F});
}

TEST(LocalTrainingTest, ARoundPushesTheChangeOfTheModel) {
  NotingServers servers;
  LocalTraining local(weight_and_statistic(),
                      {.optimizer = make_optimizer_update({.kind = OptimizerKind::sgd}), .proximal = 0});
  local.begin(servers, kAll);
  local.next_step(0.5);
  local.gradient_ready(0, std::vector{4.0F, 1.0F});
  EXPECT_EQ(value_of(local, 0), 6.0F);
  local.next_step(0.25);
  local.gradient_ready(0, std::vector{4.0F, 1.0F});
  local.end(servers, kAll);
  EXPECT_EQ(servers.pushed.at(0), (std::vector{-3.0F, -0.75F}));
}

TEST(LocalTrainingTest, TheProximalTermPullsBackToWhereTheRoundBegan) {
  NotingServers servers;
  LocalTraining local(weight_and_statistic(),
                      {.optimizer = make_optimizer_update({.kind = OptimizerKind::sgd}), .proximal = 0.5});
  local.begin(servers, kAll);
  local.next_step(1);
  local.gradient_ready(0, std::vector{4.0F, 0.0F});
  EXPECT_EQ(value_of(local, 0), 4.0F);  // at the beginning there is no way back
  local.next_step(1);
  local.gradient_ready(0, std::vector{0.0F, 0.0F});
  EXPECT_EQ(value_of(local, 0), 6.0F);  // half of the way
  local.end(servers, kAll);
  EXPECT_EQ(servers.pushed.at(0), (std::vector{-2.0F, 0.0F}));
}

TEST(LocalTrainingTest, TheOptimiserBeginsAnewInEveryRound) {
  NotingServers servers;
  LocalTraining local(
      weight_and_statistic(),
      {.optimizer = make_optimizer_update({.kind = OptimizerKind::sgd, .momentum = 0.9}), .proximal = 0});
  std::vector<float> changes;
  for (int round = 0; round < 2; ++round) {
    local.begin(servers, kAll);
    for (int i = 0; i < 2; ++i) {
      local.next_step(1);
      local.gradient_ready(0, std::vector{1.0F, 1.0F});
    }
    local.end(servers, kAll);
    changes.push_back(servers.pushed.at(0).front());
  }
  EXPECT_FLOAT_EQ(changes[0], -2.9F);
  EXPECT_EQ(changes[1], changes[0]);
}

// Two clocks of a period, of which only the second pushes the weight.
TEST(LocalTrainingTest, WhatIsNotPushedGoesOnAndAddsUp) {
  NotingServers servers;
  LocalTraining local(weight_and_statistic(), {});
  local.begin(servers, kAll);
  local.next_step(0.5);
  local.gradient_ready(0, std::vector{4.0F, 1.0F});
  local.gradient_ready(1, std::vector{5.0F});
  local.end(servers, {false, true});
  EXPECT_FALSE(servers.pushed.contains(0));
  EXPECT_EQ(servers.pushed.at(1), std::vector{5.0F});
  local.begin(servers, {false, true});
  EXPECT_EQ(value_of(local, 0), 6.0F);  // its own
  EXPECT_EQ(value_of(local, 1), 3.0F);  // the servers'
  local.next_step(0.5);
  local.gradient_ready(0, std::vector{2.0F, 1.0F});
  local.end(servers, kAll);
  EXPECT_EQ(servers.pushed.at(0), (std::vector{6.0F, 2.0F}));
  local.begin(servers, kAll);
  EXPECT_EQ(value_of(local, 0), 8.0F);
}

// Clients' rounds likewise: the change since the servers' values, of both.
TEST(LocalTrainingTest, ALaterRoundPushesTheChangeOfAllSinceTheServers) {
  NotingServers servers;
  LocalTraining local(weight_and_statistic(), {.optimizer = make_optimizer_update({.kind = OptimizerKind::sgd})});
  for (const bool pushed : {false, true}) {
    local.begin(servers, {!pushed, true});
    local.next_step(1);
    local.gradient_ready(0, std::vector{1.0F, 2.0F});
    local.end(servers, {pushed, true});
  }
  EXPECT_EQ(servers.pushed.at(0), (std::vector{-2.0F, -4.0F}));
}

}  // namespace
}  // namespace trifold
