#include "layers/forward_graph.h"

#include <fmt/format.h>

#include "core/error.h"
#include "kernels/ops/prepare_images.h"
#include "layers/layer_window.h"
#include "layers/nll_loss.h"

namespace trifold {
namespace {

// Far beyond any machine's memory, and far below where sizes would overflow.
void check_size(const Shape& shape) {
  double elements = 1;
  for (int dim = 0; dim < shape.rank(); ++dim) elements *= static_cast<double>(shape[dim]);
  if (elements > 0x1p38) throw ShapeError{fmt::format("makes a tensor of {:.3g} elements", elements), {}};
}

class ForwardWindow final : public LayerWindow, public ForwardBuilder {
 public:
  ForwardWindow(ForwardGraph& forward, std::vector<Node>& at_forward_end)
      : LayerWindow(forward, static_cast<int>(forward.layers.size()) - 1, Role::activation),
        at_forward_end_(at_forward_end) {}

  ValueId labels() override { return forward_.graph.labels; }

  ValueId targets() override {
    ValueId& targets = forward_.graph.targets;
    if (targets == kNoValue) targets = forward_.add_value({"targets", shape(in(0)), DType::f32, Role::input});
    return targets;
  }

  void add_at_forward_end(OpPtr op, std::vector<ValueId> in, std::vector<ValueId> out) override {
    at_forward_end_.push_back({std::move(op), std::move(in), std::move(out), Phase::forward, current_});
  }

 private:
  std::vector<Node>& at_forward_end_;
};

[[noreturn]] void fail_shape(const LayerSpec& spec, const Graph& graph, const std::vector<ValueId>& in,
                             const ShapeError& error) {
  std::string inputs;
  for (std::size_t i = 0; i < in.size(); ++i)
    inputs += fmt::format("{}'{}' gives {}", inputs.empty() ? "" : ", ", spec.in[i], to_string(graph[in[i]].shape));
  fail_input("{}: layer '{}' ({}): {}; {}", spec.place, spec.id, spec.type, error.message, inputs);
}

}  // namespace

ValueId ForwardGraph::add_value(Value value, bool trained) {
  trains.push_back(trained);
  return graph.add_value(std::move(value));
}

ForwardGraphBuilder::ForwardGraphBuilder(const Shape& images, const ModelContext& context, Mode mode) {
  forward_.context = context;
  forward_.mode = mode;
  Graph& graph = forward_.graph;
  graph.images = forward_.add_value(context.prepare ? Value{"raw images", images, DType::u8, Role::input}
                                                    : Value{"images", images, DType::f32, Role::input});
  graph.labels = forward_.add_value({"labels", Shape{context.batch}, DType::i32, Role::input});
  forward_.first_input = context.prepare ? prepared_images(*context.prepare) : graph.images;
}

ValueId ForwardGraphBuilder::prepared_images(const PrepareImagesArgs& args) {
  PrepareImages op;
  op.args = args;
  if (forward_.mode != Mode::train) op.args.augmentations.clear();
  Graph& graph = forward_.graph;
  const ValueId images = forward_.add_value({"images", graph[graph.images].shape, DType::f32, Role::activation});
  graph.nodes.push_back(
      {std::make_shared<const PrepareImages>(std::move(op)), {graph.images}, {images}, Phase::forward, -1});
  return images;
}

void ForwardGraphBuilder::add_layer(const LayerSpec& spec, std::shared_ptr<const Layer> layer,
                                    const std::vector<ValueId>& in) try {
  Graph& graph = forward_.graph;
  std::vector<Shape> shapes;
  bool trained = false;
  for (const ValueId value : in) {
    shapes.push_back(graph[value].shape);
    trained = trained || forward_.is_trained(value);
  }
  LayerInfo info{.id = spec.id, .type = spec.type, .in = in, .out = kNoValue, .parameters = {}};
  if (spec.values.has("precision")) info.precision = parse_precision(spec.values.text("precision"));

  const Shape out = layer->infer_shape(shapes);
  check_size(out);
  const bool loss = layer->is_loss();
  info.out = forward_.add_value({spec.id, out, loss ? DType::f64 : DType::f32, loss ? Role::report : Role::activation});
  GraphLayer added{.spec = spec, .layer = std::move(layer), .out = info.out};
  trained = add_parameters(spec, added.layer->parameters(shapes), added, info) || trained;
  forward_.trains[static_cast<std::size_t>(info.out)] = trained;
  graph.layers.push_back(std::move(info));
  forward_.layers.push_back(std::move(added));
  ForwardWindow window(forward_, at_forward_end_);
  forward_.layers.back().layer->forward(window);
} catch (const ShapeError& error) {
  fail_shape(spec, forward_.graph, in, error);
}

// Whether any of them is trained.
bool ForwardGraphBuilder::add_parameters(const LayerSpec& spec, const std::vector<ParameterSpec>& parameters,
                                         GraphLayer& layer, LayerInfo& info) {
  bool trained = false;
  for (const ParameterSpec& parameter : parameters) {
    check_size(parameter.shape);
    const std::string name = spec.id + "." + parameter.name;
    const ValueId value =
        forward_.add_value({name, parameter.shape, DType::f32, parameter.trained ? Role::parameter : Role::state});
    const int index = static_cast<int>(forward_.graph.parameters.size());
    forward_.graph.parameters.push_back({name, value, kNoValue, parameter.init, parameter.decay});
    layer.parameters[parameter.name] = index;
    info.parameters.push_back(index);
    trained = trained || parameter.trained;
  }
  return trained;
}

ValueId ForwardGraphBuilder::add_conversion(ValueId from, const OpPtr& op, const OpPtr& gradient, Value to, int layer) {
  const ValueId value = forward_.add_value(std::move(to), forward_.is_trained(from));
  forward_.graph.nodes.push_back({op, {from}, {value}, Phase::forward, layer});
  forward_.conversions[from].push_back({value, gradient});
  return value;
}

ForwardGraph ForwardGraphBuilder::finish() {
  Graph& graph = forward_.graph;
  const LayerInfo& loss = graph.layers.back();
  graph.report = loss.out;
  graph.output = loss.in[0];
  for (Node& node : at_forward_end_) graph.nodes.push_back(std::move(node));
  return std::move(forward_);
}

namespace {

class NetworkReader {
 public:
  NetworkReader(const NetworkSpec& spec, ForwardGraphBuilder& builder) : spec_(spec), builder_(builder) {
    value_of_["input"] = builder.forward().first_input;
  }

  void read() {
    for (const LayerSpec& layer : spec_.layers) add(layer);
    if (spec_.layers.empty()) fail_input("the model has no layers");
    if (!ends_in_loss()) add_missing_loss(spec_.layers.back());
  }

 private:
  bool ends_in_loss() const {
    const std::vector<GraphLayer>& layers = builder_.forward().layers;
    return !layers.empty() && layers.back().layer->is_loss();
  }

  void add(const LayerSpec& layer) {
    const LayerType* type = find_layer_type(layer.type);
    TRIFOLD_CHECK(type != nullptr, "no layer type '{}'", layer.type);
    if (ends_in_loss())
      fail_input("{}: layer '{}' comes after the loss '{}', which must be the last layer", layer.place, layer.id,
                 builder_.forward().layers.back().spec.id);
    add(layer, type->make(layer.values));
  }

  void add(const LayerSpec& spec, std::shared_ptr<const Layer> layer) {
    std::vector<ValueId> in;
    for (const std::string& name : spec.in) {
      const auto found = value_of_.find(name);
      if (found == value_of_.end())
        fail_input("{}: layer '{}' reads '{}', which is no layer before it", spec.place, spec.id, name);
      in.push_back(found->second);
    }
    builder_.add_layer(spec, std::move(layer), in);
    value_of_[spec.id] = builder_.forward().layers.back().out;
  }

  void add_missing_loss(const LayerSpec& last) {
    const LayerType* type = find_layer_type("softmax_cross_entropy");
    LayerSpec loss{
        .id = "loss", .type = type->name, .in = {last.id}, .values = defaults_of(type->fields), .place = last.place};
    while (value_of_.contains(loss.id)) loss.id += "_";
    add(loss, last.type == "log_softmax" ? make_nll_loss(loss.values) : type->make(loss.values));
  }

  const NetworkSpec& spec_;
  ForwardGraphBuilder& builder_;
  std::map<std::string, ValueId> value_of_;  // by layer id: its output
};

}  // namespace

ForwardGraph build_forward_graph(const NetworkSpec& spec, const ModelContext& context, Mode mode) {
  ModelContext with_weights = context;
  with_weights.class_weights = spec.class_weights;
  Shape images{context.batch};
  for (int dim = 0; dim < spec.input.rank(); ++dim) images.push_back(spec.input[dim]);
  ForwardGraphBuilder builder(images, with_weights, mode);
  NetworkReader(spec, builder).read();
  return builder.finish();
}

}  // namespace trifold
