// layer_norm: the channels of each pixel, or the features of each sample, normalised.
#include "kernels/ops/layer_norm.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "support/layer_probe.h"
#include "support/op_runner.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

const LayerQuestion kLayerNorm{.type = "layer_norm", .in = {{4, 3, 5, 5}}};

TEST(LayerNormLayer, KeepsTheShape) {
  EXPECT_EQ(shape_answer(kLayerNorm), "4x3x5x5");
  EXPECT_EQ(shape_answer({.type = "layer_norm", .in = {{4, 7}}}), "4x7");
}

TEST(LayerNormLayer, RefusesWhatHasNoChannels) {
  EXPECT_EQ(shape_answer({.type = "layer_norm", .in = {{4, 3, 5}}}),
            "error: needs an input of [N, C, H, W] or [N, F] but gets 4x3x5");
}

TEST(LayerNormLayer, KeepsStatisticsForBackward) {
  EXPECT_EQ(nodes_of(kLayerNorm), (Nodes{"F layer_norm.forward (x, weight, bias) -> y, mean, istd",
                                         "W layer_norm.backward_parameters (dy, x, mean, istd) -> dweight, dbias",
                                         "B layer_norm.backward_input (dy, x, mean, istd, weight) -> dx"}));
}

TEST(LayerNormLayer, EvaluatesWithoutStatistics) {
  LayerQuestion question = kLayerNorm;
  question.mode = Mode::evaluate;
  EXPECT_EQ(nodes_of(question), (Nodes{"F layer_norm.forward (x, weight, bias) -> y"}));
}

TEST(LayerNormLayer, MakesGradientsOfParametersWhereTheInputNeedsNone) {
  LayerQuestion question = kLayerNorm;
  question.wants_gradient = {false};
  EXPECT_EQ(nodes_of(question).size(), 2u);
}

TEST(LayerNormLayer, StartsWithoutScaleAndShift) {
  const auto parameters = parameters_of(kLayerNorm);
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].name, "weight");
  EXPECT_EQ(parameters[0].init.constant, 1);
  EXPECT_EQ(parameters[1].name, "bias");
  EXPECT_EQ(parameters[1].init.constant, 0);
  for (const ParameterSpec& parameter : parameters) {
    EXPECT_EQ(parameter.shape, Shape{3}) << parameter.name;
    EXPECT_TRUE(parameter.trained) << parameter.name;
    EXPECT_FALSE(parameter.decay) << parameter.name;
  }
}

TEST(LayerNormLayer, IsDividedByRowsButNotByChannels) {
  const auto layer = find_layer_type("layer_norm")->make(defaults_of(find_layer_type("layer_norm")->fields));
  ASSERT_TRUE(layer->row_window());
  EXPECT_TRUE(layer->row_window()->is_local());
  EXPECT_FALSE(layer->is_channel_local());
  EXPECT_TRUE(layer->splits(kLayerNorm.in, 3).empty());
}

HostTensor tensor_of(const Shape& shape, const std::vector<float>& numbers) {
  HostTensor tensor{.desc = {shape}, .data = std::vector<std::byte>(numbers.size() * sizeof(float))};
  std::ranges::copy(numbers, tensor.as<float>().begin());
  return tensor;
}

// `expected` is torch.nn.functional.layer_norm(rows, (3,), weight, bias, 1e-5). The same numbers are also given as the
// pixels of an image.
TEST(LayerNormLayer, GivesTheValuesOfPyTorch) {
  const std::vector<float> rows = {1, 2, 4, -3, 0.5f, 1};
  const std::vector<float> expected = {-1.069041371f, -0.284520566f, 0.331849098f,
                                       -1.404876590f, 1.373901248f,  0.578537047f};
  const HostTensor weight = tensor_of({3}, {1, 2, -0.5f});
  const HostTensor bias = tensor_of({3}, {0, 0.25f, 1});
  LayerNormForward op;
  op.keep_statistics = false;
  for (const Backend* backend : {&reference_backend(), &cpu_backend()}) {
    const OpRun run{.backend = *backend};
    const HostTensor x = tensor_of({2, 3}, rows);
    const auto y = run_op(run, op, std::vector{x, weight, bias}, std::vector<OpOutput>{{x.desc}});
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(y[0].number(i), expected[i], 1e-6) << backend->name();
    const HostTensor image = tensor_of({1, 3, 1, 2}, {1, -3, 2, 0.5f, 4, 1});
    const auto pixels = run_op(run, op, std::vector{image, weight, bias}, std::vector<OpOutput>{{image.desc}});
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t p = 0; p < 2; ++p)
        EXPECT_NEAR(pixels[0].number(2 * c + p), expected[3 * p + c], 1e-6) << backend->name();
  }
}

}  // namespace
}  // namespace trifold::test
