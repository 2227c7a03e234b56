// The compiler: whatever it does to a graph, the losses and the trained parameters stay the same.
#include <gtest/gtest.h>

#include "core/parallel.h"
#include "support/networks.h"
#include "support/training.h"

namespace trifold {
namespace {

using test::dropped_features;
using test::expect_same;
using test::odd_network;
using test::small_resnet;
using test::small_tutorial;
using test::small_vgg;
using test::Trained;

ModelOptions options_for(const Backend& backend) {
  ModelOptions options;
  options.backend = &backend;
  options.batch = 6;
  options.threads = thread_count();
  options.optimizer.momentum = 0.9;
  options.optimizer.weight_decay = 1e-3;
  return options;
}

struct Case {
  const char* name;
  NetworkSpec (*make)();
};

class CompiledNetwork : public ::testing::TestWithParam<Case> {};

TEST_P(CompiledNetwork, FusionChangesNothing) {
  ModelOptions options = options_for(reference_backend());
  const Trained fused = test::train_network(GetParam().make(), options, 4);
  options.fuse = false;
  expect_same(fused, test::train_network(GetParam().make(), options, 4), 1e-4);
}

TEST_P(CompiledNetwork, RecomputingChangesNoBit) {
  ModelOptions options = options_for(cpu_backend());
  options.recompute = Recompute::never;
  const Trained kept = test::train_network(GetParam().make(), options, 3);
  options.recompute = Recompute::always;
  expect_same(kept, test::train_network(GetParam().make(), options, 3), 0);
}

TEST_P(CompiledNetwork, CpuAgreesWithReference) {
  const Trained reference = test::train_network(GetParam().make(), options_for(reference_backend()), 5);
  expect_same(reference, test::train_network(GetParam().make(), options_for(cpu_backend()), 5), 5e-4);
}

TEST_P(CompiledNetwork, CpuRunsTwiceToTheSameBit) {
  const ModelOptions options = options_for(cpu_backend());
  expect_same(test::train_network(GetParam().make(), options, 3), test::train_network(GetParam().make(), options, 3),
              0);
}

TEST_P(CompiledNetwork, AccumulationGivesTheWholeBatch) {
  ModelOptions options = options_for(cpu_backend());
  options.bn_group = 2;
  const Trained whole = test::train_network(GetParam().make(), options, 3);
  options.accumulate = 3;
  expect_same(whole, test::train_network(GetParam().make(), options, 3), 2e-4);
}

TEST_P(CompiledNetwork, StrictMathAgreesToo) {
  ModelOptions options = options_for(cpu_backend());
  options.strict_math = true;
  expect_same(test::train_network(GetParam().make(), options_for(reference_backend()), 3),
              test::train_network(GetParam().make(), options, 3), 5e-4);
}

INSTANTIATE_TEST_SUITE_P(Networks, CompiledNetwork,
                         ::testing::Values(Case{"resnet", small_resnet}, Case{"tutorial", small_tutorial},
                                           Case{"vgg", small_vgg}, Case{"odd", odd_network},
                                           Case{"dropped_features", dropped_features}),
                         [](const auto& each) { return std::string(each.param.name); });

int count_ops(const Graph& graph, std::string_view name) {
  int count = 0;
  for (const Node& node : graph.nodes) count += node.op->name() == name;
  return count;
}

TEST(Compile, RecomputingKeepsFewerActivations) {
  ModelOptions options = options_for(cpu_backend());
  options.recompute = Recompute::never;
  const Program kept = compile_training(small_resnet(), options);
  options.recompute = Recompute::always;
  const Program recomputed = compile_training(small_resnet(), options);
  EXPECT_GT(count_ops(recomputed.graph, "batch_norm.apply"), count_ops(kept.graph, "batch_norm.apply"));
  EXPECT_LT(recomputed.memory.bytes(Region::arena), kept.memory.bytes(Region::arena));
}

TEST(Compile, ResnetLosesItsReluAndAddPasses) {
  const Program program = compile_training(small_resnet(), options_for(cpu_backend()));
  EXPECT_EQ(count_ops(program.graph, "activation.forward"), 0);
  EXPECT_EQ(count_ops(program.graph, "activation.backward"), 0);
  EXPECT_EQ(count_ops(program.graph, "add"), 0) << "residuals and sums of gradients are part of batch norm's passes";
  EXPECT_EQ(count_ops(program.graph, "reorder"), 0);
}

TEST(Compile, RawImagesArePreparedFirst) {
  ModelOptions options = options_for(cpu_backend());
  options.prepare = {.mean = {0.5f, 0.5f, 0.5f}, .deviation = {1, 1, 1}, .augmentations = {RandomCrop{2}}};
  const Program training = compile_training(small_resnet(), options);
  const Program evaluation = compile_evaluation(small_resnet(), options, training);

  EXPECT_EQ(to_string(*training.graph.nodes.front().op), "prepare_images crop pad 2");
  EXPECT_EQ(to_string(*evaluation.graph.nodes.front().op), "prepare_images");  // nothing random
  EXPECT_EQ(count_ops(training.graph, "prepare_images"), 1);
  EXPECT_EQ(count_ops(training.graph, "conv2d.backward_data"), 5);

  const Value& raw = training.graph[training.graph.images];
  EXPECT_EQ(raw.dtype, DType::u8);
  const Place& place = training.memory.places[static_cast<std::size_t>(training.graph.images)];
  EXPECT_EQ(place.region, Region::inputs);
  EXPECT_EQ(place.bytes, static_cast<std::size_t>(raw.shape.elements()));
}

TEST(Compile, FirstLayerHasNoInputGradient) {
  const Program program = compile_training(small_resnet(), options_for(cpu_backend()));
  EXPECT_EQ(count_ops(program.graph, "conv2d.forward"), 6);
  EXPECT_EQ(count_ops(program.graph, "conv2d.backward_data"), 5);
  EXPECT_EQ(count_ops(program.graph, "conv2d.backward_weights"), 6);
}

}  // namespace
}  // namespace trifold
