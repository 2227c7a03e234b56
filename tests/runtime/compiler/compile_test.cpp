// The compiler: whatever it does to a graph, the losses and the trained parameters stay the same.
#include <gtest/gtest.h>

#include "runtime/core/parallel.h"
#include "runtime/core/philox.h"
#include "runtime/train/model.h"
#include "support/networks.h"

namespace trifold {
namespace {

using test::dropped_features;
using test::odd_network;
using test::small_resnet;
using test::small_tutorial;
using test::small_vgg;

struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<float>> parameters;
};

ModelOptions options_for(const Backend& backend) {
  ModelOptions options;
  options.backend = &backend;
  options.batch = 6;
  options.threads = thread_count();
  options.optimizer.momentum = 0.9;
  options.optimizer.weight_decay = 1e-3;
  return options;
}

Trained train(const NetworkSpec& spec, const ModelOptions& options, int steps) {
  Model model = make_model(spec, options);
  model.initialize(3);
  Executable& program = model.training();
  const Graph& graph = program.program().graph;
  const std::int64_t micro = options.micro_batch();
  const std::int64_t elements = graph[graph.images].shape.elements() / micro;
  Trained trained;
  for (int step = 0; step < steps; ++step) {
    StepContext context{.seed = 9, .first_sample = 0, .learning_rate = 0.05, .updates = step + 1};
    double loss = 0;
    for (std::int64_t part = 0; part < options.accumulate; ++part) {
      context.first_sample = step * options.batch + part * micro;
      for (std::int64_t n = 0; n < micro; ++n) {
        RandomSequence random(7, Purpose::synthetic, 0, static_cast<std::uint64_t>(context.first_sample + n));
        for (std::int64_t i = 0; i < elements; ++i) program.images()[n * elements + i] = random.uniform(-1, 1);
        program.labels()[n] = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(spec.classes)));
      }
      program.run(context);
      loss += program.loss();
      if (options.accumulate > 1) program.accumulate(part == 0, context);
    }
    program.update(context);
    trained.losses.push_back(loss);
  }
  for (const Parameter& parameter : graph.parameters) trained.parameters.push_back(program.read(parameter.value));

  // Evaluation reads the same parameters, wherever its own program wants them.
  Executable& evaluation = model.evaluation();
  std::fill_n(evaluation.images(), micro * elements, 0.25f);
  std::fill_n(evaluation.labels(), micro, 0);
  evaluation.run({});
  trained.losses.push_back(evaluation.loss());
  return trained;
}

void expect_same(const Trained& a, const Trained& b, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance * std::abs(a.losses[i])) << "step " << i;
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (std::size_t p = 0; p < a.parameters.size(); ++p) {
    double largest = 0;
    double difference = 0;
    for (std::size_t i = 0; i < a.parameters[p].size(); ++i) {
      largest = std::max<double>(largest, std::abs(a.parameters[p][i]));
      difference = std::max<double>(difference, std::abs(a.parameters[p][i] - b.parameters[p][i]));
    }
    EXPECT_LE(difference, tolerance * std::max(largest, 0.1)) << "parameter " << p;
  }
}

struct Case {
  const char* name;
  NetworkSpec (*make)();
};

class CompiledNetwork : public ::testing::TestWithParam<Case> {};

TEST_P(CompiledNetwork, FusionChangesNothing) {
  ModelOptions options = options_for(reference_backend());
  const Trained fused = train(GetParam().make(), options, 4);
  options.fuse = false;
  expect_same(fused, train(GetParam().make(), options, 4), 1e-4);
}

TEST_P(CompiledNetwork, RecomputingChangesNoBit) {
  ModelOptions options = options_for(cpu_backend());
  options.recompute = Recompute::never;
  const Trained kept = train(GetParam().make(), options, 3);
  options.recompute = Recompute::always;
  expect_same(kept, train(GetParam().make(), options, 3), 0);
}

TEST_P(CompiledNetwork, CpuAgreesWithReference) {
  const Trained reference = train(GetParam().make(), options_for(reference_backend()), 5);
  expect_same(reference, train(GetParam().make(), options_for(cpu_backend()), 5), 5e-4);
}

TEST_P(CompiledNetwork, CpuRunsTwiceToTheSameBit) {
  const ModelOptions options = options_for(cpu_backend());
  expect_same(train(GetParam().make(), options, 3), train(GetParam().make(), options, 3), 0);
}

TEST_P(CompiledNetwork, AccumulationGivesTheWholeBatch) {
  ModelOptions options = options_for(cpu_backend());
  options.bn_group = 2;
  const Trained whole = train(GetParam().make(), options, 3);
  options.accumulate = 3;
  expect_same(whole, train(GetParam().make(), options, 3), 2e-4);
}

TEST_P(CompiledNetwork, StrictMathAgreesToo) {
  ModelOptions options = options_for(cpu_backend());
  options.strict_math = true;
  expect_same(train(GetParam().make(), options_for(reference_backend()), 3), train(GetParam().make(), options, 3),
              5e-4);
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

TEST(Compile, FirstLayerHasNoInputGradient) {
  const Program program = compile_training(small_resnet(), options_for(cpu_backend()));
  EXPECT_EQ(count_ops(program.graph, "conv2d.forward"), 6);
  EXPECT_EQ(count_ops(program.graph, "conv2d.backward_data"), 5);
  EXPECT_EQ(count_ops(program.graph, "conv2d.backward_weights"), 6);
}

}  // namespace
}  // namespace trifold
