// Training in 16 bits: where the types are, what they save, how far the losses move, and what an overflow does.
#include <cmath>

#include <gtest/gtest.h>

#include "core/parallel.h"
#include "support/networks.h"
#include "support/training.h"

namespace trifold {
namespace {

using test::small_resnet;
using test::small_tutorial;
using test::train_network;
using test::Trained;

ModelOptions options_for(const Backend& backend, DType precision) {
  ModelOptions options;
  options.backend = &backend;
  options.batch = 6;
  options.threads = thread_count();
  options.optimizer.momentum = 0.9;
  options.precision = precision;
  options.loss_scaling.initial = 128;  // no overflow: these compare updates, and a skipped one is none
  return options;
}

// Without linear layers: the loss reads a view of the last convolution, and so does its gradient.
NetworkSpec convolutions_only() {
  const auto conv = [](std::int64_t out, std::int64_t kernel) {
    return std::vector<std::pair<std::string, FieldValue>>{{"out", out}, {"kernel", Pair{kernel, kernel}}};
  };
  return test::network({3, 6, 6}, 5,
                       {{"conv1", "conv2d", {}, conv(8, 3)},
                        {"tanh", "tanh"},
                        {"conv2", "conv2d", {}, conv(5, 4)},
                        {"flat", "flatten"}});
}

class In16Bits : public testing::TestWithParam<DType> {
 protected:
  // bf16 keeps 8 bits of a number, f16 11; a few roundings a layer add up over the layers and steps.
  double bound() const { return GetParam() == DType::bf16 ? 3e-2 : 5e-3; }
  // A gradient also jumps where rounding moves an element across a relu's edge. Measured for the first layer, the
  // worst: 5 % in f16. A scale or a term that is wrong shows as 50 % and more.
  double update_bound() const { return GetParam() == DType::bf16 ? 0.25 : 0.08; }
};

// How far the first update of each parameter is from that in f32, relative to its norm. (Later losses say little: the
// networks are small and the rates high, so that any rounding grows.)
TEST_P(In16Bits, TheFirstUpdateIsThatOfF32) {
  for (const auto make : {small_resnet, small_tutorial, convolutions_only}) {
    const Trained start = train_network(make(), options_for(cpu_backend(), DType::f32), 0);
    const Trained exact = train_network(make(), options_for(cpu_backend(), DType::f32), 1);
    const Trained rounded = train_network(make(), options_for(cpu_backend(), GetParam()), 1);
    EXPECT_NEAR(rounded.losses[0], exact.losses[0], bound() * exact.losses[0]);
    EXPECT_NE(rounded.losses[0], exact.losses[0]) << "nothing was rounded";
    for (std::size_t p = 0; p < start.parameters.size(); ++p) {
      double moved = 0;
      double difference = 0;
      for (std::size_t i = 0; i < start.parameters[p].size(); ++i) {
        moved = std::hypot(moved, exact.parameters[p][i] - start.parameters[p][i]);
        difference = std::hypot(difference, exact.parameters[p][i] - rounded.parameters[p][i]);
      }
      EXPECT_LE(difference, update_bound() * moved + 1e-7) << "parameter " << p;
    }
  }
}

TEST_P(In16Bits, CpuAgreesWithReference) {
  const auto reference = train_network(small_resnet(), options_for(reference_backend(), GetParam()), 4);
  const auto cpu = train_network(small_resnet(), options_for(cpu_backend(), GetParam()), 4);
  for (std::size_t i = 0; i < cpu.losses.size(); ++i)
    EXPECT_NEAR(cpu.losses[i], reference.losses[i], bound() * reference.losses[i]) << "step " << i;
}

TEST_P(In16Bits, ActivationsTakeHalfTheBytes) {
  const auto bytes_of_values = [](const Program& program) {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < program.descs.size(); ++i) {
      const Value& value = program.graph.values[i];
      const bool flows = value.role == Role::activation || value.role == Role::gradient;
      const bool used = program.memory.places[i].region == Region::arena;
      if (used && flows && value.shape.rank() == 4 && value.name.find(" as ") == std::string::npos)
        bytes += program.descs[i].bytes();
    }
    return bytes;
  };
  const Program full = compile_training(small_resnet(), options_for(cpu_backend(), DType::f32));
  const Program half = compile_training(small_resnet(), options_for(cpu_backend(), GetParam()));
  EXPECT_EQ(bytes_of_values(half) * 2, bytes_of_values(full));
}

TEST_P(In16Bits, ParametersAndLossStayInF32) {
  const Program program = compile_training(small_resnet(), options_for(cpu_backend(), GetParam()));
  for (const Parameter& parameter : program.graph.parameters) {
    EXPECT_EQ(program.descs[static_cast<std::size_t>(parameter.value)].dtype, DType::f32) << parameter.name;
    if (parameter.gradient == kNoValue) continue;
    EXPECT_EQ(program.descs[static_cast<std::size_t>(parameter.gradient)].dtype, DType::f32) << parameter.name;
  }
}

TEST_P(In16Bits, ALayerMayStayInF32) {
  NetworkSpec spec = small_tutorial();
  for (LayerSpec& layer : spec.layers) layer.values.set("precision", std::string("fp32"));
  const auto exact = train_network(small_tutorial(), options_for(cpu_backend(), DType::f32), 3);
  const auto kept = train_network(spec, options_for(cpu_backend(), GetParam()), 3);
  for (std::size_t i = 0; i < exact.losses.size(); ++i)
    EXPECT_NEAR(kept.losses[i], exact.losses[i], 1e-6 * exact.losses[i]);
}

INSTANTIATE_TEST_SUITE_P(Types, In16Bits, testing::Values(DType::f16, DType::bf16),
                         [](const auto& each) { return std::string(name_of(each.param)); });

TEST(LossScale, AnOverflowHalvesItAndSkipsOneUpdate) {
  ModelOptions options = options_for(cpu_backend(), DType::f16);
  options.loss_scaling.initial = 16777216;  // 2^24: more than f16 can hold
  Model model = make_model(small_tutorial(), options);
  model.initialize(3);
  double scale = options.loss_scaling.initial;
  double skipped = 0;
  bool updated = false;
  for (int step = 0; step < 24 && !updated; ++step) {
    const std::vector<float> before = test::first_parameter(model);
    test::run_step(model, options, step);
    const auto state = model.loss_scale();
    ASSERT_TRUE(state.has_value());
    updated = test::first_parameter(model) != before;
    if (!updated) {
      scale /= 2;
      skipped += 1;
    }
    EXPECT_EQ(state->scale, scale) << "step " << step;
    EXPECT_EQ(state->skipped, skipped) << "step " << step;
  }
  EXPECT_TRUE(updated);
  EXPECT_GT(skipped, 0);
}

TEST(LossScale, GrowsAfterGoodUpdates) {
  ModelOptions options = options_for(cpu_backend(), DType::f16);
  options.loss_scaling.initial = 64;
  options.loss_scaling.growth_interval = 3;
  Model model = make_model(small_tutorial(), options);
  model.initialize(3);
  for (int step = 0; step < 7; ++step) test::run_step(model, options, step);
  EXPECT_EQ(model.loss_scale()->scale, 256);
  EXPECT_EQ(model.loss_scale()->skipped, 0);
}

TEST(LossScale, OneLayerInF16IsEnough) {
  NetworkSpec spec = small_tutorial();
  spec.layers.front().values.set("precision", std::string("fp16"));
  Model model = make_model(spec, options_for(cpu_backend(), DType::f32));
  EXPECT_TRUE(model.loss_scale().has_value());
}

TEST(LossScale, OnlyF16HasOne) {
  Model model = make_model(small_tutorial(), options_for(cpu_backend(), DType::bf16));
  EXPECT_FALSE(model.loss_scale().has_value());
}

}  // namespace
}  // namespace trifold
