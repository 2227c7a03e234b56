// What a server does to its slices is to the bit what the CPU backend's optimiser does to the whole model.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "core/error.h"
#include "parallel/servers/updates/slice_update.h"
#include "runtime/compiler/program.h"
#include "support/op_runner.h"

namespace trifold::test {
namespace {

constexpr std::size_t kElements = 1013;
constexpr std::size_t kDecayed = 600;  // the rest is exempt
constexpr int kUpdates = 4;

std::vector<float> drawn(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(kElements);
  for (float& value : values) value = draw(random);
  return values;
}

HostTensor tensor_of(const std::vector<float>& values) {
  HostTensor tensor{.desc = {Shape{static_cast<std::int64_t>(values.size())}}};
  tensor.data.resize(tensor.desc.bytes());
  std::copy(values.begin(), values.end(), tensor.as().begin());
  return tensor;
}

std::vector<float> floats_of(const HostTensor& tensor) {
  return {tensor.as().begin(), tensor.as().end()};
}

struct OptimizerCase {
  const char* name;
  OptimizerArgs args;
};

using Arrays = std::vector<std::vector<float>>;  // the values, then the states

Arrays by_kernel(const OptimizerArgs& args, const Arrays& start) {
  OptimizerUpdate op;
  op.args = args;
  op.segments = {{0, kDecayed, true}, {kDecayed, kElements, false}};
  std::vector<HostTensor> in = {tensor_of(start[0]), {}};
  std::vector<OpOutput> out = {{.desc = in[0].desc, .updates = 0}};
  for (std::size_t state = 1; state < start.size(); ++state) {
    in.push_back(tensor_of(start[state]));
    out.push_back({.desc = in[0].desc, .updates = static_cast<int>(1 + state)});
  }
  out.push_back({.desc = {Shape{1}, DType::f64}});
  OpRun run{.backend = cpu_backend(), .context = {.learning_rate = 0.1}};
  for (int update = 1; update <= kUpdates; ++update) {
    run.context.updates = update;
    in[1] = tensor_of(drawn(static_cast<unsigned>(update)));
    const std::vector<HostTensor> made = run_op(run, op, in, out);
    in[0] = made[0];
    for (std::size_t state = 1; state < start.size(); ++state) in[1 + state] = made[state];
  }
  Arrays arrays = {floats_of(in[0])};
  for (std::size_t state = 1; state < start.size(); ++state) arrays.push_back(floats_of(in[1 + state]));
  return arrays;
}

Arrays by_slices(const SliceUpdate& update, Arrays arrays, const std::vector<std::size_t>& cuts, bool in_place) {
  for (int step = 1; step <= kUpdates; ++step) {
    const std::vector<float> push = drawn(static_cast<unsigned>(step));
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const std::size_t begin = cuts[i], count = cuts[i + 1] - begin;
      std::vector<float*> states;
      for (std::size_t state = 1; state < arrays.size(); ++state) states.push_back(arrays[state].data() + begin);
      const std::span<float> values(arrays[0].data() + begin, count);
      std::vector<float> apart(count);
      update.apply(values, {push.data() + begin, count}, in_place ? values : std::span<float>(apart), states,
                   {.rate = 0.1, .updates = step, .decays = begin < kDecayed});
      if (!in_place) std::copy(apart.begin(), apart.end(), values.begin());
    }
  }
  return arrays;
}

class OptimizerUpdateOfSlices : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(OptimizerUpdateOfSlices, IsThatOfTheWholeToTheBit) {
  const auto update = make_optimizer_update(GetParam().args);
  EXPECT_EQ(update->state_names(), optimizer_state_names(GetParam().args));
  Arrays start = {drawn(77)};
  for (const float initial : update->initial_states()) start.emplace_back(kElements, initial);
  const Arrays expected = by_kernel(GetParam().args, start);
  EXPECT_NE(expected[0], start[0]);
  EXPECT_EQ(by_slices(*update, start, {0, kDecayed, kElements}, true), expected);
  EXPECT_EQ(by_slices(*update, start, {0, 1, 18, 300, kDecayed, 601, 850, kElements}, true), expected);
  EXPECT_EQ(by_slices(*update, start, {0, 13, kDecayed, 999, kElements}, false), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, OptimizerUpdateOfSlices,
    ::testing::Values(
        OptimizerCase{"Sgd", {.weight_decay = 0.01}},
        OptimizerCase{"Momentum", {.momentum = 0.9, .weight_decay = 0.01}},
        OptimizerCase{"Nesterov", {.momentum = 0.9, .nesterov = true, .weight_decay = 0.01}},
        OptimizerCase{"Adam", {.kind = OptimizerKind::adam, .weight_decay = 0.01, .beta1 = 0.8}},
        OptimizerCase{"AdamW", {.kind = OptimizerKind::adamw, .weight_decay = 0.01}},
        OptimizerCase{
            "Adagrad",
            {.kind = OptimizerKind::adagrad, .weight_decay = 0.01, .eps = 1e-10, .initial_accumulator = 0.1}}),
    [](const auto& made) { return std::string(made.param.name); });

TEST(OptimizerUpdateKinds, WhatNeedsMoreThanASliceIsRefused) {
  EXPECT_THROW(make_optimizer_update({.kind = OptimizerKind::lars}), Error);
  EXPECT_THROW(make_optimizer_update({.clip_norm = 1}), Error);
}

}  // namespace
}  // namespace trifold::test
