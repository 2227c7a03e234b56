// Autodiff asks layers for their backward nodes, and takes gradients back over conversions by the ops that these name.
#include "layers/autodiff.h"

#include <gtest/gtest.h>

#include "kernels/ops/shape_ops.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

using Lines = std::vector<std::string>;

struct Back final : Op {
  std::string_view name() const override { return "back"; }
  OpKind kind() const override { return OpKind::movement; }
};

OpPtr back() {
  return std::make_shared<const Back>();
}

// Two linear layers and a loss; the second layer reads a conversion of the first one's output.
class Autodiff : public ::testing::Test {
 protected:
  void add(const std::string& id, ValueId in) {
    for (const LayerSpec& spec : spec_.layers)
      if (spec.id == id) builder_.add_layer(spec, find_layer_type(spec.type)->make(spec.values), {in});
  }
  ValueId out() const { return builder_.forward().graph.layers.back().out; }
  ValueId convert(ValueId from, const std::string& name, const OpPtr& gradient) {
    return builder_.add_conversion(from, std::make_shared<const Reshape>(), gradient, {name, Shape{4, 5}}, 1);
  }

  // "B a: back (d x) -> d y", of the nodes whose op has this name.
  Lines nodes(const std::string& op) {
    const Graph graph = add_gradients(builder_.finish());
    Lines lines;
    for (const Node& node : graph.nodes)
      if (node.phase != Phase::forward && node.op->name() == op)
        lines.push_back(fmt::format("{} {}: {} -> {}", name_of(node.phase),
                                    graph.layers[static_cast<std::size_t>(node.layer)].id, graph[node.in[0]].name,
                                    graph[node.out[0]].name));
    return lines;
  }

  NetworkSpec spec_ = network({6, 1, 1}, 3,
                              {{"a", "linear", {}, {{"out", std::int64_t{5}}}},
                               {"b", "linear", {}, {{"out", std::int64_t{3}}}},
                               {"c", "linear", {"a"}, {{"out", std::int64_t{3}}}},
                               {"sum", "add", {"b", "c"}},
                               {"loss", "softmax_cross_entropy"}});
  ForwardGraphBuilder builder_{Shape{4, 6}, {.batch = 4, .global_batch = 4, .classes = 3}, Mode::train};
};

TEST_F(Autodiff, TakesAGradientBackByTheOpThatTheConversionNames) {
  add("a", builder_.forward().first_input);
  add("b", convert(out(), "a there", back()));
  add("loss", out());
  EXPECT_EQ(nodes("back"), (Lines{"B a: d a there -> d a"}));
}

TEST_F(Autodiff, LeavesTheGradientAsItIsWhereTheConversionNamesNoOp) {
  add("a", builder_.forward().first_input);
  add("b", convert(out(), "a there", nullptr));
  add("loss", out());
  // The weights of `a` read the gradient of what `a` was converted to.
  EXPECT_EQ(nodes("linear.backward_weights"), (Lines{"W b: a there -> d b.weight", "W a: images -> d a.weight"}));
}

TEST_F(Autodiff, AddsUpTheGradientsOfAConversionBeforeItTakesThemBack) {
  add("a", builder_.forward().first_input);
  const ValueId there = convert(out(), "a there", back());
  add("b", there);
  const ValueId b = out();
  add("c", there);
  const std::vector<ValueId> both = {b, out()};
  const LayerSpec& sum = spec_.layers[3];
  builder_.add_layer(sum, find_layer_type("add")->make(sum.values), both);
  add("loss", out());
  EXPECT_EQ(nodes("back"), (Lines{"B a: d a there sum -> d a"}));
}

TEST_F(Autodiff, MakesTheGradientsOfParametersOfTheLayersTerms) {
  add("a", builder_.forward().first_input);
  builder_.forward().layers.back().parameter_gradient_op = back();
  add("b", out());
  add("loss", out());
  EXPECT_EQ(nodes("back"), (Lines{"W a: d a.weight part -> d a.weight", "W a: d a.bias part -> d a.bias"}));
}

TEST(ForwardGraph, KeepsWhatLaterPassesAskLayersFor) {
  const NetworkSpec spec = small_resnet();
  const ForwardGraph forward = build_forward_graph(spec, {.batch = 4, .global_batch = 4, .bn_group = 2}, Mode::train);
  ASSERT_EQ(forward.layers.size(), forward.graph.layers.size());
  EXPECT_EQ(forward.trains.size(), forward.graph.values.size());
  EXPECT_TRUE(forward.layers.back().layer->is_loss());
  EXPECT_TRUE(forward.conversions.empty());
  EXPECT_FALSE(forward.is_trained(forward.first_input));
  for (const Node& node : forward.graph.nodes) EXPECT_EQ(node.phase, Phase::forward);
  for (const Parameter& parameter : forward.graph.parameters) {
    EXPECT_EQ(parameter.gradient, kNoValue);
    EXPECT_LT(parameter.shard.dim, 0);
  }
}

}  // namespace
}  // namespace trifold::test
