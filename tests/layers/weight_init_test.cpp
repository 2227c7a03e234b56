// The "init" field of conv2d and linear: which numbers weights and biases start with.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "runtime/train/initialize.h"
#include "support/folding.h"
#include "support/layer_probe.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

// fan_in 36 and 72.
const LayerQuestion kInitConv{
    .type = "conv2d",
    .fields = {{"out", std::int64_t{400}}, {"kernel", Pair{3, 3}}, {"groups", std::int64_t{2}}},
    .in = {{4, 8, 6, 6}}};
const LayerQuestion kInitLinear{.type = "linear", .fields = {{"out", std::int64_t{400}}}, .in = {{4, 72}}};

std::vector<std::vector<float>> first_values(LayerQuestion question, const std::string& init) {
  if (!init.empty()) question.fields.emplace_back("init", init);
  std::vector<std::vector<float>> values;
  for (const ParameterSpec& spec : parameters_of(question))
    values.push_back(initial_values({.name = "layer." + spec.name, .init = spec.init}, spec.shape, 5));
  return values;
}

double variance_of(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(values.size());
  return squares / count - sum / count * (sum / count);
}

double largest_of(const std::vector<float>& values) {
  double found = 0;
  for (const float value : values) found = std::max<double>(found, std::abs(value));
  return found;
}

TEST(WeightInit, PytorchDrawsWeightsAndBiasUniformly) {
  for (const auto& [question, fan_in] : {std::pair{kInitConv, 36.0}, std::pair{kInitLinear, 72.0}}) {
    SCOPED_TRACE(question.type);
    const double bound = 1 / std::sqrt(fan_in);
    for (const std::vector<float>& values : first_values(question, "pytorch")) {
      EXPECT_LE(largest_of(values), bound);
      EXPECT_GT(largest_of(values), 0.95 * bound);
      EXPECT_NEAR(variance_of(values), bound * bound / 3, 0.15 * bound * bound / 3);
    }
  }
}

TEST(WeightInit, HeIsNormalAndLeavesTheBiasAtZero) {
  for (const auto& [question, fan_in] : {std::pair{kInitConv, 36.0}, std::pair{kInitLinear, 72.0}}) {
    SCOPED_TRACE(question.type);
    const auto values = first_values(question, "he");
    EXPECT_NEAR(variance_of(values[0]), 2 / fan_in, 0.05 * 2 / fan_in);
    EXPECT_GT(largest_of(values[0]), 3 * std::sqrt(2 / fan_in)) << "not uniform";
    EXPECT_EQ(largest_of(values[1]), 0);
  }
}

TEST(WeightInit, UniformHasTheWeightsOfPytorchAndNoBias) {
  for (const LayerQuestion& question : {kInitConv, kInitLinear}) {
    const auto values = first_values(question, "uniform");
    EXPECT_EQ(values[0], first_values(question, "pytorch")[0]);
    EXPECT_EQ(largest_of(values[1]), 0);
  }
}

TEST(WeightInit, DefaultsAreHeForImagesAndUniformForFeatures) {
  EXPECT_EQ(first_values(kInitConv, ""), first_values(kInitConv, "he"));
  EXPECT_EQ(first_values(kInitLinear, ""), first_values(kInitLinear, "uniform"));
}

TEST(WeightInit, IsTheSameInEveryPlan) {
  NetworkSpec network = small_vgg();
  for (LayerSpec& layer : network.layers)
    if (layer.type == "conv2d" || layer.type == "linear") layer.values.set("init", std::string("pytorch"));
  FoldOptions start;
  start.steps = 0;
  const FoldRun single = run_fold(network, {}, start);
  bool has_bias = false;
  for (const auto& [name, values] : single.parameters) {
    if (!name.ends_with(".bias")) continue;
    has_bias = has_bias || largest_of(values) > 0;
  }
  EXPECT_TRUE(has_bias);
  for (const char* split : {"in_channels", "out_channels"}) {
    const PlanConfig plan{.tp = 2, .split = {{"*", "none"}, {"conv2", split}, {"fc1", split}}};
    EXPECT_EQ(run_fold(network, plan, start).parameters, single.parameters) << split;
  }
  EXPECT_EQ(run_fold(network, {.dp = 2, .zero = 3}, start).parameters, single.parameters);
  EXPECT_EQ(run_fold(network, {.pp = 2, .micro_batches = 4}, start).parameters, single.parameters);
}

}  // namespace
}  // namespace trifold::test
