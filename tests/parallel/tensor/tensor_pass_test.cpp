// What tensor ranks exchange, by layer: a network's graph under a plan holds no collective that the split does not
// need.
#include <algorithm>

#include <gtest/gtest.h>

#include "kernels/ops/collective.h"
#include "runtime/compiler/build_graph.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

using Lines = std::vector<std::string>;

Graph graph_under(const NetworkSpec& network, const TensorPlan& plan) {
  return build_graph(network, {.batch = 4, .global_batch = 4, .bn_group = 2}, Mode::train, plan);
}

// "F conv1: all_reduce tensor", in the order of the graph.
Lines exchanges(const NetworkSpec& network, const TensorPlan& plan) {
  const Graph graph = graph_under(network, plan);
  Lines lines;
  for (const Node& node : graph.nodes)
    if (dynamic_cast<const Exchange*>(node.op.get()) != nullptr)
      lines.push_back(fmt::format("{} {}: {}", name_of(node.phase),
                                  graph.layers[static_cast<std::size_t>(node.layer)].id, to_string(*node.op)));
  return lines;
}

TensorPlan two_parts(int part = 0) {
  return {.parts = 2, .part = part};
}

TEST(TensorSplit, PairsExchangeOnceEachWayWithDropoutBetween) {
  // conv1 is the first layer: nobody waits for the gradient of the images.
  EXPECT_EQ(exchanges(small_tutorial(), two_parts()),
            (Lines{"F conv2: all_reduce tensor", "F fc2: all_reduce tensor", "B flat: all_reduce tensor"}));
  EXPECT_EQ(exchanges(small_vgg(), two_parts()),
            (Lines{"F conv2: all_reduce tensor", "F fc2: all_reduce tensor", "B flat: all_reduce tensor"}));
}

TensorPlan rows_of_two(const NetworkSpec& network, int part = 0) {
  TensorPlan plan = two_parts(part);
  plan.splits.assign(network.layers.size(), LayerSplit::rows);
  return plan;
}

// Parameters are whole: the gradients of each are added up, which is left out here.
Lines halos(const NetworkSpec& network, const TensorPlan& plan) {
  Lines lines = exchanges(network, plan);
  std::erase_if(lines, [](const std::string& line) { return line.starts_with("W"); });
  return lines;
}

TEST(TensorSplit, ATrunkInRowsExchangesHalosOnly) {
  // 16 rows, then 8, then 4: the images are on every rank, and pooling by 2 needs no row of another rank.
  EXPECT_EQ(halos(small_vgg(), rows_of_two(small_vgg())),
            (Lines{"F conv2: halo_exchange tensor rows -1..5 of 8", "F flat: gather_rows tensor",
                   "B pool1: halo_add tensor rows -1..5 of 8"}));
  EXPECT_EQ(halos(small_vgg(), rows_of_two(small_vgg(), 1)),
            (Lines{"F conv2: halo_exchange tensor rows 3..9 of 8", "F flat: gather_rows tensor",
                   "B pool1: halo_add tensor rows 3..9 of 8"}));
}

TEST(TensorSplit, GradientsOfParametersAreAddedUpOverRows) {
  const Lines lines = exchanges(small_vgg(), rows_of_two(small_vgg()));
  EXPECT_EQ(std::ranges::count(lines, "W conv1: all_reduce tensor"), 2);  // weight and bias
  EXPECT_EQ(std::ranges::count(lines, "W conv2: all_reduce tensor"), 2);
  EXPECT_EQ(std::ranges::count(lines, "W fc1: all_reduce tensor"), 0);
}

TEST(TensorSplit, BlocksGatherAlongTheGridAndKeepBlocksOnly) {
  const NetworkSpec net = small_lenet();
  TensorPlan plan = {.parts = 4, .part = 2};
  for (const LayerSpec& layer : net.layers)
    plan.splits.push_back(layer.id == "fc1" || layer.id == "fc2" ? LayerSplit::blocks : LayerSplit::whole);
  const Lines lines = exchanges(net, plan);
  // The sigmoid and the tanh between stay in blocks; fc3 reads the whole.
  EXPECT_EQ((Lines{lines.begin(), lines.begin() + 5}),
            (Lines{"F fc1: grid_gather tensor grid row", "F fc1: grid_gather tensor grid column",
                   "F fc2: grid_gather tensor grid row", "F fc2: grid_gather tensor grid column",
                   "F fc3: gather_blocks tensor"}));
  EXPECT_EQ(std::ranges::count(lines, "B fc2: grid_sum_scatter tensor grid row"), 1);
  EXPECT_EQ(std::ranges::count(lines, "W fc2: grid_sum_scatter tensor grid column"), 1);
  EXPECT_EQ(std::ranges::count(lines, "W fc2: grid_sum tensor grid column"), 1);  // bias

  const Graph graph = graph_under(net, plan);
  const auto weight = std::ranges::find(graph.parameters, "fc2.weight", &Parameter::name);
  ASSERT_NE(weight, graph.parameters.end());
  EXPECT_EQ(graph[weight->value].shape, (Shape{8, 12}));  // of 16 x 24
  EXPECT_EQ(graph[weight->gradient].shape, (Shape{8, 12}));
  // Rank 2 is in row 1, column 0: the first outputs, the second half of the inputs.
  EXPECT_EQ(weight->shard.index, 0);
  EXPECT_EQ(weight->shard.column, 1);
}

}  // namespace
}  // namespace trifold::test
