// Every element-wise layer keeps the shape; its gradient reads its output, or its input where the function says so.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/ops/activation.h"
#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

TEST(ActivationLayers, KeepTheShape) {
  for (const Activation activation : kActivations) {
    const std::string type(name_of(activation));
    EXPECT_EQ(shape_answer({.type = type, .in = {{4, 3, 5, 5}}}), "4x3x5x5") << type;
    EXPECT_EQ(shape_answer({.type = type, .in = {{4, 7}}}), "4x7") << type;
  }
}

TEST(ActivationLayers, AddTheirNodes) {
  for (const Activation activation : kActivations) {
    const std::string type(name_of(activation));
    const char* kept = traits_of(activation).gradient_from == GradientFrom::input ? "x" : "y";
    EXPECT_EQ(nodes_of({.type = type, .in = {{4, 7}}}),
              (Nodes{fmt::format("F activation.forward {} (x) -> y", type),
                     fmt::format("B activation.backward {} (dy, {}) -> dx", type, kept)}));
  }
}

TEST(ActivationLayers, ReadOutputsOrInputs) {
  EXPECT_EQ(traits_of(Activation::relu).gradient_from, GradientFrom::output);
  EXPECT_EQ(traits_of(Activation::gelu).gradient_from, GradientFrom::input);
}

}  // namespace
}  // namespace trifold::test
