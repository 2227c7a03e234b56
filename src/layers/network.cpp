// Builds the Graph: forward nodes layer by layer, then, going back, each layer's gradient nodes.
#include "layers/network.h"

#include <map>
#include <memory>

#include "kernels/ops/loss.h"
#include "kernels/ops/prepare_images.h"
#include "kernels/ops/shape_ops.h"
#include "runtime/core/error.h"

namespace trifold {
namespace {

struct BuiltLayer {
  LayerSpec spec;
  std::unique_ptr<Layer> layer;
  std::map<std::string, int> parameters;  // name within the layer -> index in Graph::parameters
  std::map<std::string, ValueId> made;
};

// Far beyond any machine's memory, and far below where sizes would overflow.
void check_size(const Shape& shape) {
  double elements = 1;
  for (int dim = 0; dim < shape.rank(); ++dim) elements *= static_cast<double>(shape[dim]);
  if (elements > 0x1p38) throw ShapeError{fmt::format("makes a tensor of {:.3g} elements", elements), {}};
}

class NetworkBuilder final : public LayerBuilder {
 public:
  NetworkBuilder(const NetworkSpec& spec, const ModelContext& context, Mode mode) : context_(context), mode_(mode) {
    context_.class_weights = spec.class_weights;
    Shape images{context.batch};
    for (int dim = 0; dim < spec.input.rank(); ++dim) images.push_back(spec.input[dim]);
    graph_.images = new_value(context.prepare ? Value{"raw images", images, DType::u8, Role::input}
                                              : Value{"images", images, DType::f32, Role::input});
    graph_.labels = new_value({"labels", Shape{context.batch}, DType::i32, Role::input});
    value_of_["input"] = context.prepare ? prepared_images(*context.prepare) : graph_.images;
  }

  Graph build(const NetworkSpec& spec) {
    for (const LayerSpec& layer : spec.layers) add_layer(layer);
    add_missing_loss();
    finish_forward();
    if (mode_ == Mode::train)
      for (current_ = layer_count() - 1; current_ >= 0; --current_) add_backward();
    return std::move(graph_);
  }

  // LayerBuilder
  const ModelContext& context() const override { return context_; }
  Mode mode() const override { return mode_; }
  int layer_index() const override { return current_; }
  ValueId in(int index) const override { return info().in[static_cast<std::size_t>(index)]; }
  int in_count() const override { return static_cast<int>(info().in.size()); }
  ValueId out() const override { return info().out; }
  const Shape& shape(ValueId value) const override { return graph_[value].shape; }
  ValueId labels() override { return graph_.labels; }

  ValueId targets() override {
    if (graph_.targets == kNoValue)
      graph_.targets = new_value({"targets", graph_[in(0)].shape, DType::f32, Role::input});
    return graph_.targets;
  }

  ValueId parameter(const std::string& name) const override { return declared(name).value; }

  ValueId make(const std::string& name, const Shape& shape, DType dtype) override {
    const ValueId value = new_value({info().id + "." + name, shape, dtype, making_role()});
    layers_[static_cast<std::size_t>(current_)].made[name] = value;
    return value;
  }

  ValueId made(const std::string& name) const override {
    const auto& made = layers_[static_cast<std::size_t>(current_)].made;
    const auto found = made.find(name);
    TRIFOLD_CHECK(found != made.end(), "layer '{}' made no value '{}'", info().id, name);
    return found->second;
  }

  ValueId out_gradient() const override { return out_gradient_; }
  bool wants_gradient(int input) const override { return trains(in(input)); }

  ValueId make_in_gradient(int input) override {
    const ValueId target = in(input);
    const ValueId gradient =
        new_value({"d " + graph_[target].name, graph_[target].shape, graph_[target].dtype, Role::gradient});
    set_in_gradient(input, gradient);
    return gradient;
  }

  void set_in_gradient(int input, ValueId gradient) override {
    if (wants_gradient(input)) gradients_[in(input)].push_back(gradient);
  }

  ValueId parameter_gradient(const std::string& name) override {
    Parameter& parameter =
        graph_.parameters[static_cast<std::size_t>(layers_[static_cast<std::size_t>(current_)].parameters.at(name))];
    if (parameter.gradient == kNoValue)
      parameter.gradient =
          new_value({"d " + parameter.name, graph_[parameter.value].shape, DType::f32, Role::parameter_gradient});
    return parameter.gradient;
  }

  void add(OpPtr op, std::vector<ValueId> in, std::vector<ValueId> out, Phase phase) override {
    graph_.nodes.push_back({std::move(op), std::move(in), std::move(out), phase, current_});
  }

 private:
  int layer_count() const { return static_cast<int>(layers_.size()); }
  const LayerInfo& info() const { return graph_.layers[static_cast<std::size_t>(current_)]; }
  bool trains(ValueId value) const { return trains_[static_cast<std::size_t>(value)]; }
  Role making_role() const { return in_backward_ ? Role::gradient : Role::activation; }

  ValueId new_value(Value value) {
    trains_.push_back(false);
    return graph_.add_value(std::move(value));
  }

  ValueId prepared_images(const PrepareImagesArgs& args) {
    PrepareImages op;
    op.args = args;
    if (mode_ != Mode::train) op.args.augmentations.clear();
    const ValueId images = new_value({"images", graph_[graph_.images].shape, DType::f32, Role::activation});
    graph_.nodes.push_back(
        {std::make_shared<const PrepareImages>(std::move(op)), {graph_.images}, {images}, Phase::forward, -1});
    return images;
  }

  const Parameter& declared(const std::string& name) const {
    const auto& indices = layers_[static_cast<std::size_t>(current_)].parameters;
    const auto found = indices.find(name);
    TRIFOLD_CHECK(found != indices.end(), "layer '{}' declared no parameter '{}'", info().id, name);
    return graph_.parameters[static_cast<std::size_t>(found->second)];
  }

  [[noreturn]] void fail_shape(const LayerSpec& spec, const ShapeError& error) const {
    std::string inputs;
    for (const std::string& name : spec.in)
      inputs +=
          fmt::format("{}'{}' gives {}", inputs.empty() ? "" : ", ", name, to_string(graph_[value_of_.at(name)].shape));
    fail_input("{}: layer '{}' ({}): {}; {}", spec.place, spec.id, spec.type, error.message, inputs);
  }

  void add_layer(const LayerSpec& spec) {
    const LayerType* type = find_layer_type(spec.type);
    TRIFOLD_CHECK(type != nullptr, "no layer type '{}'", spec.type);
    if (!layers_.empty() && layers_.back().layer->is_loss())
      fail_input("{}: layer '{}' comes after the loss '{}', which must be the last layer", spec.place, spec.id,
                 layers_.back().spec.id);

    BuiltLayer built{spec, type->make(spec.values), {}, {}};
    LayerInfo info{spec.id, spec.type, {}, kNoValue, {}, {}};
    if (spec.values.has("precision")) info.precision = parse_precision(spec.values.text("precision"));
    std::vector<Shape> shapes;
    bool trained = false;
    for (const std::string& name : spec.in) {
      const auto found = value_of_.find(name);
      if (found == value_of_.end())
        fail_input("{}: layer '{}' reads '{}', which is no layer before it", spec.place, spec.id, name);
      info.in.push_back(found->second);
      shapes.push_back(graph_[found->second].shape);
      trained = trained || trains(found->second);
    }

    try {
      const Shape shape = built.layer->infer_shape(shapes);
      check_size(shape);
      const bool loss = built.layer->is_loss();
      info.out = new_value({spec.id, shape, loss ? DType::f64 : DType::f32, loss ? Role::report : Role::activation});
      for (const ParameterSpec& parameter : built.layer->parameters(shapes)) {
        check_size(parameter.shape);
        const std::string name = spec.id + "." + parameter.name;
        const ValueId value =
            new_value({name, parameter.shape, DType::f32, parameter.trained ? Role::parameter : Role::state});
        const int index = static_cast<int>(graph_.parameters.size());
        graph_.parameters.push_back({name, value, kNoValue, parameter.init, parameter.decay});
        built.parameters[parameter.name] = index;
        info.parameters.push_back(index);
        trained = trained || parameter.trained;
      }
      trains_[static_cast<std::size_t>(info.out)] = trained;
      value_of_[spec.id] = info.out;
      graph_.layers.push_back(info);
      layers_.push_back(std::move(built));
      current_ = layer_count() - 1;
      layers_.back().layer->forward(*this);
    } catch (const ShapeError& error) {
      fail_shape(spec, error);
    }
  }

  void add_missing_loss() {
    if (layers_.empty()) fail_input("the model has no layers");
    if (layers_.back().layer->is_loss()) return;
    const LayerSpec last = layers_.back().spec;  // a copy: adding a layer may move the list
    const LayerType* type = find_layer_type("softmax_cross_entropy");
    FieldValues values = defaults_of(type->fields);
    LayerSpec loss{.id = "loss", .type = type->name, .in = {last.id}, .values = values, .place = last.place};
    while (value_of_.contains(loss.id)) loss.id += "_";
    add_layer(loss);
    if (last.type == "log_softmax") {
      // The plain negative log-likelihood: the network has taken the logarithm already.
      Node& node = graph_.nodes.back();
      CrossEntropy op = static_cast<const CrossEntropy&>(*node.op);
      op.log_input = true;
      node.op = std::make_shared<const CrossEntropy>(op);
    }
  }

  void finish_forward() {
    const LayerInfo& loss = graph_.layers.back();
    graph_.report = loss.out;
    graph_.output = loss.in[0];
    in_backward_ = true;
  }

  void add_backward() {
    const LayerInfo& layer = info();
    if (!trains(layer.out)) return;
    out_gradient_ = kNoValue;
    if (!layers_[static_cast<std::size_t>(current_)].layer->is_loss()) {
      const auto found = gradients_.find(layer.out);
      if (found == gradients_.end()) return;  // nothing that the loss depends on
      out_gradient_ = sum_of(found->second);
    }
    layers_[static_cast<std::size_t>(current_)].layer->backward(*this);
  }

  // A value that several layers read gets the sum of their gradients.
  ValueId sum_of(const std::vector<ValueId>& gradients) {
    ValueId total = gradients[0];
    for (std::size_t i = 1; i < gradients.size(); ++i) {
      const ValueId sum =
          new_value({graph_[total].name + " sum", graph_[total].shape, graph_[total].dtype, Role::gradient});
      emit(Add{}, {total, gradients[i]}, {sum}, Phase::backward_input);
      total = sum;
    }
    return total;
  }

  ModelContext context_;
  Mode mode_;
  Graph graph_;
  std::vector<BuiltLayer> layers_;
  std::map<std::string, ValueId> value_of_;            // layer id -> its output
  std::map<ValueId, std::vector<ValueId>> gradients_;  // value -> contributions to its gradient
  std::vector<bool> trains_;                           // whether a parameter lies behind the value
  int current_ = -1;
  bool in_backward_ = false;
  ValueId out_gradient_ = kNoValue;
};

}  // namespace

Graph build_graph(const NetworkSpec& spec, const ModelContext& context, Mode mode) {
  return NetworkBuilder(spec, context, mode).build(spec);
}

}  // namespace trifold
