// What tensor ranks exchange, by layer: a network's graph under a plan holds no collective that the split does not need.
#include <gtest/gtest.h>

#include "kernels/ops/collective.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

using Lines = std::vector<std::string>;

// "F conv1: all_reduce tensor", in the order of the graph.
Lines exchanges(const NetworkSpec& network, const ModelContext& context) {
  const Graph graph = build_graph(network, context, Mode::train);
  Lines lines;
  for (const Node& node : graph.nodes)
    if (dynamic_cast<const Exchange*>(node.op.get()) != nullptr)
      lines.push_back(fmt::format("{} {}: {}", name_of(node.phase),
                                  graph.layers[static_cast<std::size_t>(node.layer)].id, to_string(*node.op)));
  return lines;
}

ModelContext two_parts(int part = 0) {
  return {.batch = 4, .global_batch = 4, .bn_group = 2, .tensor_parts = 2, .tensor_part = part};
}

TEST(TensorSplit, PairsExchangeOnceEachWayWithDropoutBetween) {
  // conv1 is the first layer: nobody waits for the gradient of the images.
  EXPECT_EQ(exchanges(small_tutorial(), two_parts()),
            (Lines{"F conv2: all_reduce tensor", "F fc2: all_reduce tensor", "B flat: all_reduce tensor"}));
  EXPECT_EQ(exchanges(small_vgg(), two_parts()),
            (Lines{"F conv2: all_reduce tensor", "F fc2: all_reduce tensor", "B flat: all_reduce tensor"}));
}

}  // namespace
}  // namespace trifold::test
