// Builds the Graph: forward nodes layer by layer, then, going back, each layer's gradient nodes.
#include "layers/network.h"

#include <algorithm>
#include <map>
#include <memory>

#include "kernels/ops/collective.h"
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
    for (const LayerSpec& layer : spec.layers)
      for (const std::string& in : layer.in) readers_[in].push_back(&layer);
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
  ValuePart part(ValueId value) const override {
    const bool in_parts = spread_of(value) == Spread::channels;
    return {.whole = whole_shape(value),
            .first_channel = in_parts ? context_.tensor_part * graph_[value].shape[1] : 0};
  }
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

  void add_at_forward_end(OpPtr op, std::vector<ValueId> in, std::vector<ValueId> out) override {
    at_forward_end_.push_back({std::move(op), std::move(in), std::move(out), Phase::forward, current_});
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
          fmt::format("{}'{}' gives {}", inputs.empty() ? "" : ", ", name, to_string(whole_shape(value_of_.at(name))));
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
    std::vector<Shape> whole_shapes;
    for (const std::string& name : spec.in) {
      const auto found = value_of_.find(name);
      if (found == value_of_.end())
        fail_input("{}: layer '{}' reads '{}', which is no layer before it", spec.place, spec.id, name);
      info.in.push_back(found->second);
      whole_shapes.push_back(whole_shape(found->second));
    }

    try {
      const std::unique_ptr<Layer> whole = type->make(spec.values);
      const Shape whole_out = whole->infer_shape(whole_shapes);
      check_size(whole_out);
      const LayerSplit split = choose_split(spec, *whole, whole_shapes, info.in);
      if (split != LayerSplit::whole) built.layer->narrow({split, context_.tensor_part, context_.tensor_parts});
      current_ = layer_count();  // what is added for it belongs to it
      const Spread reads = spread_read(*whole, split, info.in);
      std::vector<Shape> shapes;
      bool trained = false;
      for (ValueId& in : info.in) {
        in = as_spread(in, reads);
        shapes.push_back(graph_[in].shape);
        trained = trained || trains(in);
      }

      const bool loss = built.layer->is_loss();
      info.out = new_value({spec.id, built.layer->infer_shape(shapes), loss ? DType::f64 : DType::f32,
                            loss ? Role::report : Role::activation});
      const std::vector<ParameterSpec> whole_parameters = whole->parameters(whole_shapes);
      const std::vector<ParameterSpec> parameters = built.layer->parameters(shapes);
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        add_parameter(spec, parameters[i], whole_parameters[i], built, info);
        trained = trained || parameters[i].trained;
      }
      trains_[static_cast<std::size_t>(info.out)] = trained;
      graph_.layers.push_back(info);
      layers_.push_back(std::move(built));
      layers_.back().layer->forward(*this);
      if (split == LayerSplit::in_channels) add_up_parts();
      const ValueId out = graph_.layers.back().out;
      spreads_[out] = spread_written(split, reads);
      value_of_[spec.id] = out;
    } catch (const ShapeError& error) {
      fail_shape(spec, error);
    }
  }

  void add_parameter(const LayerSpec& spec, const ParameterSpec& parameter, const ParameterSpec& whole,
                     BuiltLayer& built, LayerInfo& info) {
    check_size(whole.shape);
    Shard shard;
    for (int dim = 0; dim < whole.shape.rank(); ++dim)
      if (parameter.shape[dim] != whole.shape[dim]) shard = {dim, context_.tensor_part, context_.tensor_parts};
    const std::string name = spec.id + "." + parameter.name;
    const ValueId value =
        new_value({name, parameter.shape, DType::f32, parameter.trained ? Role::parameter : Role::state});
    const int index = static_cast<int>(graph_.parameters.size());
    graph_.parameters.push_back({name, value, kNoValue, whole.init, whole.decay, shard});
    built.parameters[parameter.name] = index;
    info.parameters.push_back(index);
  }

  // --- layers divided among tensor ranks

  bool divided() const { return context_.tensor_parts > 1; }

  Spread spread_of(ValueId value) const {
    const auto found = spreads_.find(value);
    return found == spreads_.end() ? Spread::whole : found->second;
  }

  Shape whole_shape(ValueId value) const {
    Shape shape = graph_[value].shape;
    if (spread_of(value) == Spread::channels) shape[1] *= context_.tensor_parts;
    return shape;
  }

  LayerSplit choose_split(const LayerSpec& spec, const Layer& layer, std::span<const Shape> in,
                          std::span<const ValueId> values) const {
    if (!divided()) return LayerSplit::whole;
    const auto index = static_cast<std::size_t>(layer_count());
    const std::vector<LayerSplit> possible = layer.splits(in, context_.tensor_parts);
    const auto can = [&](LayerSplit split) { return std::ranges::find(possible, split) != possible.end(); };
    if (index < context_.splits.size() && context_.splits[index]) {
      const LayerSplit named = *context_.splits[index];
      if (named != LayerSplit::whole && !can(named)) fail_split(spec, layer, in, named);
      return named;
    }
    // What comes in parts is read in parts; what is whole is divided where the parts can be read so by the next
    // product.
    if (spread_of(values[0]) == Spread::channels)
      return can(LayerSplit::groups)        ? LayerSplit::groups
             : can(LayerSplit::in_channels) ? LayerSplit::in_channels
                                            : LayerSplit::whole;
    return can(LayerSplit::out_channels) && is_read_by_products(spec.id) ? LayerSplit::out_channels : LayerSplit::whole;
  }

  // Whether all that read the layer, beyond layers that are local to channels, are products.
  bool is_read_by_products(const std::string& id) const {
    const auto readers = readers_.find(id);
    if (readers == readers_.end()) return false;
    return std::ranges::all_of(readers->second, [&](const LayerSpec* reader) {
      const std::unique_ptr<Layer> layer = find_layer_type(reader->type)->make(reader->values);
      return layer->sums_over_channels() ||
             (layer->is_channel_local() && reader->in.size() == 1 && is_read_by_products(reader->id));
    });
  }

  [[noreturn]] void fail_split(const LayerSpec& spec, const Layer& layer, std::span<const Shape> in,
                               LayerSplit split) const {
    const auto channels = [](const Shape& shape) { return shape.rank() > 1 ? shape[1] : 1; };
    fail_input(
        "{}: layer '{}' ({}), from {} to {} channels, cannot be split by {} into {} parts; use a plan.tp that "
        "divides them, or \"by\": \"none\"",
        spec.place, spec.id, spec.type, channels(in[0]), channels(layer.infer_shape(in)), name_of(split),
        context_.tensor_parts);
  }

  Spread spread_read(const Layer& layer, LayerSplit split, std::span<const ValueId> in) const {
    if (split == LayerSplit::out_channels) return Spread::shared;
    if (split == LayerSplit::in_channels || split == LayerSplit::groups) return Spread::channels;
    const bool in_parts = std::ranges::all_of(in, [&](ValueId value) { return spread_of(value) == Spread::channels; });
    return in_parts && layer.is_channel_local() ? Spread::channels : Spread::whole;
  }

  static Spread spread_written(LayerSplit split, Spread reads) {
    if (split == LayerSplit::in_channels) return Spread::whole;
    if (split == LayerSplit::whole) return reads;
    return Spread::channels;
  }

  // The value as a layer reads it: converted once for all that read it so.
  ValueId as_spread(ValueId value, Spread wanted) {
    const Spread has = spread_of(value);
    if (has == wanted || !divided()) return value;
    if (has == Spread::channels && wanted == Spread::shared) return as_spread(as_spread(value, Spread::whole), wanted);
    const auto [known, added] = conversions_[value].try_emplace(wanted, kNoValue);
    if (!added) return known->second;
    Shape shape = whole_shape(value);
    if (wanted == Spread::channels) shape[1] /= context_.tensor_parts;
    const char* how = wanted == Spread::channels ? " part" : wanted == Spread::whole ? " whole" : " shared";
    const ValueId converted = new_value({graph_[value].name + how, shape, graph_[value].dtype, Role::activation});
    trains_[static_cast<std::size_t>(converted)] = trains(value);
    spreads_[converted] = wanted;
    known->second = converted;
    if (wanted == Spread::shared)
      emit(Reshape{}, {value}, {converted});
    else if (wanted == Spread::whole)
      emit(GatherChannels{}, {value}, {converted});
    else
      emit(take_own_channels(shape[1]), {value}, {converted});
    return converted;
  }

  SplitChannels take_own_channels(std::int64_t channels) const {
    SplitChannels op;
    op.first_channel = {context_.tensor_part * channels};
    return op;
  }

  // Each rank's output is a part of the sum.
  void add_up_parts() {
    LayerInfo& layer = graph_.layers.back();
    const Value part = graph_[layer.out];
    const ValueId sum = new_value({part.name + " sum", part.shape, part.dtype, part.role});
    trains_[static_cast<std::size_t>(sum)] = trains(layer.out);
    AllReduce op;
    op.axis = Axis::tensor;
    emit(op, {layer.out}, {sum});
    graph_.layers.back().out = sum;
  }

  // The gradients of the value's conversions become gradients of the value.
  void add_gradients_of_conversions(ValueId value) {
    const auto found = conversions_.find(value);
    if (found == conversions_.end()) return;
    for (const auto& [spread, converted] : found->second) {
      add_gradients_of_conversions(converted);
      const auto gradients = gradients_.find(converted);
      if (gradients == gradients_.end()) continue;
      const ValueId gradient = sum_of(gradients->second);
      const ValueId back =
          new_value({"d " + graph_[value].name, graph_[value].shape, graph_[value].dtype, Role::gradient});
      if (spread == Spread::shared) {
        AllReduce op;
        op.axis = Axis::tensor;
        emit(op, {gradient}, {back}, Phase::backward_input);
      } else if (spread == Spread::whole) {
        emit(take_own_channels(graph_[value].shape[1]), {gradient}, {back}, Phase::backward_input);
      } else {
        emit(GatherChannels{}, {gradient}, {back}, Phase::backward_input);
      }
      gradients_[value].push_back(back);
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
    for (Node& node : at_forward_end_) graph_.nodes.push_back(std::move(node));
    in_backward_ = true;
  }

  void add_backward() {
    const LayerInfo& layer = info();
    if (!trains(layer.out)) return;
    out_gradient_ = kNoValue;
    if (!layers_[static_cast<std::size_t>(current_)].layer->is_loss()) {
      add_gradients_of_conversions(layer.out);
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
  std::vector<Node> at_forward_end_;
  std::vector<BuiltLayer> layers_;
  std::map<std::string, ValueId> value_of_;                       // layer id -> its output
  std::map<std::string, std::vector<const LayerSpec*>> readers_;  // layer id -> layers that read it
  std::map<ValueId, Spread> spreads_;                             // of values that are not whole
  std::map<ValueId, std::map<Spread, ValueId>> conversions_;      // value -> the same value as others read it
  std::map<ValueId, std::vector<ValueId>> gradients_;             // value -> contributions to its gradient
  std::vector<bool> trains_;                                      // whether a parameter lies behind the value
  int current_ = -1;
  bool in_backward_ = false;
  ValueId out_gradient_ = kNoValue;
};

}  // namespace

Graph build_graph(const NetworkSpec& spec, const ModelContext& context, Mode mode) {
  return NetworkBuilder(spec, context, mode).build(spec);
}

}  // namespace trifold
