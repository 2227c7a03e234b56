// The forward graph: every layer's forward nodes, and what later passes ask of the layers. It is the first of the
// passes that make a program of a network, and it knows nothing of ranks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "layers/network.h"

namespace trifold {

// A layer of the graph, which autodiff asks for its backward nodes.
struct GraphLayer {
  LayerSpec spec;
  std::shared_ptr<const Layer> layer;
  ValueId out = kNoValue;                      // what the layer itself makes; LayerInfo::out is what other layers read
  std::map<std::string, int> parameters = {};  // name within the layer -> index in Graph::parameters
  std::map<std::string, ValueId> made = {};    // name within the layer -> value
  // The layer's gradients of its parameters are terms of the real ones, which this op makes of them; null: they are the
  // real ones.
  OpPtr parameter_gradient_op = nullptr;
};

// A value that one op makes of another one, linearly, so that one op takes the gradient back.
struct Conversion {
  ValueId to = kNoValue;
  OpPtr gradient;  // makes the gradient of what was converted; null: it is the gradient of `to`
};

struct ForwardGraph {
  Graph graph;
  ModelContext context;
  Mode mode = Mode::train;
  std::vector<GraphLayer> layers;                          // one for each of Graph::layers
  ValueId first_input = kNoValue;                          // what layers read as "input"
  std::vector<bool> trains;                                // by value: whether a parameter lies behind it
  std::map<ValueId, std::vector<Conversion>> conversions;  // by what was converted

  ValueId add_value(Value value, bool trained = false);
  bool is_trained(ValueId value) const { return trains[static_cast<std::size_t>(value)]; }
};

// A network that ends in log_softmax gets the negative log-likelihood as its loss; one that ends in no loss gets
// softmax_cross_entropy. Throws Error with the layer's place when shapes do not fit.
ForwardGraph build_forward_graph(const NetworkSpec& spec, const ModelContext& context, Mode mode);

// Adds layers to a forward graph, one after the other. What is added between two layers belongs to the second.
class ForwardGraphBuilder {
 public:
  ForwardGraphBuilder(const Shape& images, const ModelContext& context, Mode mode);

  // So far.
  ForwardGraph& forward() { return forward_; }
  const ForwardGraph& forward() const { return forward_; }

  // The layer's output, parameters and nodes. Throws Error with the layer's place when shapes do not fit.
  void add_layer(const LayerSpec& spec, std::shared_ptr<const Layer> layer, const std::vector<ValueId>& in);
  // A value that `op` makes of another one. `layer`: the one that the node belongs to.
  ValueId add_conversion(ValueId from, const OpPtr& op, const OpPtr& gradient, Value to, int layer);

  // After the last layer, which is the loss.
  ForwardGraph finish();

 private:
  ValueId prepared_images(const PrepareImagesArgs& args);
  bool add_parameters(const LayerSpec& spec, const std::vector<ParameterSpec>& parameters, GraphLayer& layer,
                      LayerInfo& info);

  ForwardGraph forward_;
  std::vector<Node> at_forward_end_;
};

}  // namespace trifold
