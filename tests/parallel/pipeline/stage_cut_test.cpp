#include "parallel/pipeline/stage_cut.h"

#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "core/error.h"
#include "kernels/ops/collective.h"
#include "runtime/compiler/build_graph.h"
#include "runtime/config/job.h"
#include "support/networks.h"

namespace trifold {
namespace {

double slowest_of(std::span<const double> costs, std::span<const int> counts) {
  double slowest = 0;
  std::size_t at = 0;
  for (const int count : counts) {
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += costs[at++];
    slowest = std::max(slowest, sum);
  }
  EXPECT_EQ(at, costs.size());
  return slowest;
}

// Every way to cut the layers into `parts` runs.
double best_by_trial(std::span<const double> costs, int parts, std::vector<int>& counts) {
  const int used = [&] {
    int sum = 0;
    for (const int count : counts) sum += count;
    return sum;
  }();
  const int left = static_cast<int>(costs.size()) - used;
  if (static_cast<int>(counts.size()) == parts - 1) {
    counts.push_back(left);
    const double slowest = slowest_of(costs, counts);
    counts.pop_back();
    return slowest;
  }
  double best = 1e300;
  for (int count = 1; count <= left - (parts - 1 - static_cast<int>(counts.size())); ++count) {
    counts.push_back(count);
    best = std::min(best, best_by_trial(costs, parts, counts));
    counts.pop_back();
  }
  return best;
}

TEST(BalanceParts, IsTheBestOfAllCuts) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<double> costs(4 + random() % 7);
    for (double& cost : costs) cost = 1 + static_cast<double>(random() % 100);
    for (int parts = 1; parts <= 4; ++parts) {
      std::vector<int> counts;
      EXPECT_DOUBLE_EQ(slowest_of(costs, balance_parts(costs, parts)), best_by_trial(costs, parts, counts));
    }
  }
}

TEST(BalanceParts, TakesTheBestOfTheCutsThatFit) {
  const std::vector<double> costs = {1, 1, 1, 1, 8};
  EXPECT_EQ(balance_parts(costs, 2), (std::vector<int>{4, 1}));
  const auto at_most = [](int layers) { return [=](int, int begin, int end) { return end - begin <= layers; }; };
  EXPECT_EQ(balance_parts(costs, 2, at_most(3)), (std::vector<int>{3, 2}));
  EXPECT_EQ(balance_parts(costs, 2, at_most(2)), std::vector<int>{}) << "five layers are more than two times two";
}

TEST(BalanceParts, CostsMayDependOnThePart) {
  const std::vector<double> costs = {3, 3, 3, 3, 3, 3, 3, 3};
  EXPECT_EQ(balance_parts(costs, 2), (std::vector<int>{4, 4}));
  const PartCost first_takes_longer = [](int part, int begin, int end) { return (end - begin) * (part == 0 ? 4 : 3); };
  EXPECT_EQ(balance_parts(8, 2, first_takes_longer), (std::vector<int>{3, 5}));
}

TEST(BalanceParts, RefusesMorePartsThanLayers) {
  const std::vector<double> costs = {1, 2, 3};
  EXPECT_THROW(balance_parts(costs, 4), Error);
}

// Whatever is sent is received once, under the same tag, in the same phase, with the same shape.
void expect_matched(const Graph& whole, const StageCut& cut) {
  std::map<int, const Node*> sent, received;
  std::vector<Graph> parts;
  for (int part = 0; part < cut.parts; ++part) parts.push_back(graph_of_part(whole, cut, part));
  std::map<int, Shape> shape_of_tag;
  std::size_t nodes = 0, parameters = 0;
  for (const Graph& part : parts) {
    parameters += part.parameters.size();
    for (const Node& node : part.nodes) {
      if (const auto* send = dynamic_cast<const Send*>(node.op.get())) {
        EXPECT_TRUE(sent.emplace(send->tag, &node).second) << "tag " << send->tag;
        shape_of_tag[send->tag] = part[node.in[0]].shape;
      } else if (const auto* receive = dynamic_cast<const Receive*>(node.op.get())) {
        EXPECT_TRUE(received.emplace(receive->tag, &node).second) << "tag " << receive->tag;
      } else {
        ++nodes;
      }
    }
  }
  EXPECT_EQ(nodes, whole.nodes.size());
  EXPECT_EQ(parameters, whole.parameters.size());
  ASSERT_EQ(sent.size(), received.size());
  for (const Graph& part : parts)
    for (const Node& node : part.nodes)
      if (const auto* receive = dynamic_cast<const Receive*>(node.op.get())) {
        ASSERT_TRUE(sent.contains(receive->tag));
        EXPECT_EQ(sent[receive->tag]->phase, node.phase);
        EXPECT_EQ(sent[receive->tag]->layer, node.layer);
        EXPECT_EQ(shape_of_tag[receive->tag], part[node.out[0]].shape);
      }
}

TEST(StageCut, MessagesMatchWhereverANetworkIsCut) {
  for (const auto& make : {test::small_resnet, test::odd_network, test::small_vgg}) {
    const NetworkSpec spec = make();
    const Graph whole =
        build_graph(spec, {.batch = 4, .global_batch = 4, .bn_group = 4, .classes = spec.classes}, Mode::train);
    const int layers = static_cast<int>(whole.layers.size());
    for (int first = 1; first < layers - 1; ++first)
      for (const int second : {first + 1, layers - 1}) {
        if (second <= first) continue;
        const std::vector<int> counts = {first, second - first, layers - second};
        expect_matched(whole, make_cut(counts, 3));
      }
  }
}

TEST(StageCut, ASkipConnectionGoesStraightToItsReader) {
  const NetworkSpec spec = test::small_resnet();
  const Graph whole =
      build_graph(spec, {.batch = 4, .global_batch = 4, .bn_group = 4, .classes = spec.classes}, Mode::train);
  // relu0 is read by a.conv1 (part 1) and by a.add (part 2).
  StageCut cut{.part_of_layer = {}, .parts = 4, .stages = 4};
  for (const LayerInfo& layer : whole.layers)
    cut.part_of_layer.push_back(layer.id == "conv0" || layer.id == "bn0" || layer.id == "relu0" ? 0
                                : layer.id.starts_with("a.conv1") || layer.id == "a.bn1"        ? 1
                                : layer.id.starts_with("a.")                                    ? 2
                                                                                                : 3);
  const Graph first = graph_of_part(whole, cut, 0);
  std::vector<int> to;
  for (const Node& node : first.nodes)
    if (const auto* send = dynamic_cast<const Send*>(node.op.get())) to.push_back(send->stage);
  EXPECT_EQ(to, (std::vector<int>{1, 2}));
}

// The inputs of a slot are filled without waiting for messages, so none may be read from their memory: a first stage of
// views alone once sent the samples of a later micro-batch.
TEST(StageCut, AViewOfTheInputIsSentFromACopy) {
  const Job job = parse_job(R"({"model": {"input": [1, 2, 2], "classes": 3, "layers": [{"type": "flatten"},
                                {"type": "log_softmax"}, {"type": "linear", "out": 3}]},
                                "data": {"type": "synthetic"}})",
                            "job.json", {});
  const Graph whole = build_graph(job.model, {.batch = 1, .global_batch = 4, .bn_group = 1, .classes = 3}, Mode::train);
  const StageCut cut = make_cut(std::vector<int>{1, 1, static_cast<int>(whole.layers.size()) - 2}, 3);
  const auto copies = [&](int part) {
    std::vector<int> found;
    const Graph graph = graph_of_part(whole, cut, part);
    for (const Node& node : graph.nodes)
      if (const auto* send = dynamic_cast<const Send*>(node.op.get())) found.push_back(send->copies);
    return found;
  };
  EXPECT_EQ(copies(0), std::vector<int>{1}) << "flatten";
  EXPECT_EQ(copies(1), std::vector<int>{0}) << "log_softmax, which has memory of its own";
}

}  // namespace
}  // namespace trifold
