// log_softmax: rows of logits.
#include <gtest/gtest.h>

#include "support/layer_probe.h"

namespace trifold::test {
namespace {

using Nodes = std::vector<std::string>;

TEST(LogSoftmaxLayer, KeepsTheShape) {
  EXPECT_EQ(shape_answer({.type = "log_softmax", .in = {{4, 10}}}), "4x10");
}

TEST(LogSoftmaxLayer, RefusesImages) {
  EXPECT_EQ(shape_answer({.type = "log_softmax", .in = {{4, 10, 1, 1}}}),
            "error: needs an input of [N, K] but gets 4x10x1x1: put a flatten layer before it");
}

TEST(LogSoftmaxLayer, AddsItsNodes) {
  EXPECT_EQ(nodes_of({.type = "log_softmax", .in = {{4, 10}}}),
            (Nodes{"F log_softmax.forward (x) -> y", "B log_softmax.backward (dy, y) -> dx"}));
}

}  // namespace
}  // namespace trifold::test
