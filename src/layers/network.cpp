// Builds the Graph: forward nodes layer by layer, then, going back, each layer's gradient nodes.
#include "layers/network.h"

#include <algorithm>
#include <map>
#include <memory>

#include "core/error.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/grid.h"
#include "kernels/ops/loss.h"
#include "kernels/ops/prepare_images.h"
#include "kernels/ops/shape_ops.h"
#include "layers/placement_conversion.h"
#include "layers/split_choice.h"

namespace trifold {
namespace {

struct BuiltLayer {
  LayerSpec spec;
  std::unique_ptr<Layer> layer;
  std::map<std::string, int> parameters;  // name within the layer -> index in Graph::parameters
  std::map<std::string, ValueId> made;
  LayerSplit split = LayerSplit::whole;
};

// A value as other layers read it.
struct ReadAs {
  Placement placement = Placement::whole;
  PlacementConversion by = {};
  ValueId value = kNoValue;
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
    ValuePart part{.whole = whole_shape(value)};
    if (placement_of(value) == Placement::channels) part.first_channel = context_.tensor_part * graph_[value].shape[1];
    if (placement_of(value) == Placement::rows) {
      for (int rank = 0; rank < context_.tensor_parts; ++rank)
        part.rows.push_back(rows_of_part(part.whole[2], rank, context_.tensor_parts));
      part.first_row = part.rows[static_cast<std::size_t>(context_.tensor_part)].begin;
    }
    return part;
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
    const BuiltLayer& built = layers_[static_cast<std::size_t>(current_)];
    Parameter& parameter = graph_.parameters[static_cast<std::size_t>(built.parameters.at(name))];
    if (parameter.gradient == kNoValue)
      parameter.gradient =
          new_value({"d " + parameter.name, graph_[parameter.value].shape, DType::f32, Role::parameter_gradient});
    if (built.split != LayerSplit::rows) return parameter.gradient;
    const ValueId part =
        new_value({"d " + parameter.name + " part", graph_[parameter.value].shape, DType::f32, Role::gradient});
    gradient_parts_.emplace_back(part, parameter.gradient);
    return part;
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

    BuiltLayer built{.spec = spec, .layer = type->make(spec.values), .parameters = {}, .made = {}};
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
      const LayerSplit split = split_of(spec, *whole, whole_shapes, info.in);
      built.split = split;
      if (split != LayerSplit::whole) built.layer->narrow({split, context_.tensor_part, context_.tensor_parts});
      current_ = layer_count();  // what is added for it belongs to it
      const Placement reads = placement_read(*whole, split, info.in);
      std::vector<Shape> shapes;
      bool trained = false;
      for (ValueId& in : info.in) {
        in = reads == Placement::rows ? with_rows_for(*whole, in, whole_out) : placed_as(in, reads);
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
      const bool sums = split == LayerSplit::in_channels || (split == LayerSplit::rows && whole->sums_over_rows());
      if (sums) add_up_parts();
      const ValueId out = graph_.layers.back().out;
      placements_[out] = sums ? Placement::whole : placement_written(split, reads);
      if (placements_[out] == Placement::rows) {
        heights_[out] = whole_out[2];
        graph_.rows_differ = graph_.rows_differ || whole_out[2] % context_.tensor_parts != 0;
      }
      value_of_[spec.id] = out;
    } catch (const ShapeError& error) {
      fail_shape(spec, error);
    }
  }

  void add_parameter(const LayerSpec& spec, const ParameterSpec& parameter, const ParameterSpec& whole,
                     BuiltLayer& built, LayerInfo& info) {
    check_size(whole.shape);
    Shard shard{.copy = context_.tensor_part};
    if (built.split == LayerSplit::blocks) {
      // Rank (i, j) has the outputs of its column and the inputs of its row: so a column gathers all inputs.
      const TensorGrid grid{grid_side(context_.tensor_parts), context_.tensor_part};
      shard = {.dim = 0, .index = grid.column(), .count = grid.side};
      if (whole.shape.rank() == 2)
        shard.column = grid.row(), shard.columns = grid.side;
      else
        shard.copy = grid.row();
    } else {
      for (int dim = 0; dim < whole.shape.rank(); ++dim)
        if (parameter.shape[dim] != whole.shape[dim]) shard = {dim, context_.tensor_part, context_.tensor_parts};
    }
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

  Placement placement_of(ValueId value) const {
    const auto found = placements_.find(value);
    return found == placements_.end() ? Placement::whole : found->second;
  }

  Shape whole_shape(ValueId value) const {
    Shape shape = graph_[value].shape;
    if (placement_of(value) == Placement::channels) shape[1] *= context_.tensor_parts;
    if (placement_of(value) == Placement::rows) shape[2] = heights_.at(value);
    if (placement_of(value) == Placement::blocks)
      for (const int dim : {0, 1}) shape[dim] *= grid_side(context_.tensor_parts);
    return shape;
  }

  LayerSplit split_of(const LayerSpec& spec, const Layer& layer, std::span<const Shape> in,
                      std::span<const ValueId> values) const {
    if (!divided()) return LayerSplit::whole;
    const auto index = static_cast<std::size_t>(layer_count());
    std::vector<Placement> come;
    for (const ValueId value : values) come.push_back(placement_of(value));
    return choose_split({.spec = spec,
                         .layer = layer,
                         .in = in,
                         .come = come,
                         .named = index < context_.splits.size() ? context_.splits[index] : std::nullopt,
                         .parts = context_.tensor_parts,
                         .is_read_by_products = [&] { return is_read_by_products(spec.id); }});
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

  Placement placement_read(const Layer& layer, LayerSplit split, std::span<const ValueId> in) const {
    if (split == LayerSplit::out_channels) return Placement::shared;
    if (split == LayerSplit::in_channels || split == LayerSplit::groups) return Placement::channels;
    if (split == LayerSplit::rows) return Placement::rows;
    if (split == LayerSplit::blocks) return Placement::blocks;
    const bool in_parts =
        std::ranges::all_of(in, [&](ValueId value) { return placement_of(value) == Placement::channels; });
    return in_parts && layer.is_channel_local() ? Placement::channels : Placement::whole;
  }

  static Placement placement_written(LayerSplit split, Placement reads) {
    if (split == LayerSplit::in_channels) return Placement::whole;
    if (split == LayerSplit::whole || split == LayerSplit::rows || split == LayerSplit::blocks) return reads;
    return Placement::channels;
  }

  // The value as a layer reads it: converted once for all that read it so.
  ValueId placed_as(ValueId value, Placement wanted) {
    const Placement has = placement_of(value);
    if (has == wanted || !divided()) return value;
    if (has != Placement::whole && wanted != Placement::whole)
      return placed_as(placed_as(value, Placement::whole), wanted);
    return convert(value, wanted,
                   convert_placement(has, wanted, whole_shape(value), context_.tensor_part, context_.tensor_parts));
  }

  // The rows of the value that this rank's rows of the layer's output need.
  ValueId with_rows_for(const Layer& layer, ValueId value, const Shape& whole_out) {
    const std::optional<RowWindow> window = layer.row_window();
    if (!window) return placed_as(value, Placement::rows);
    const Shape whole = whole_shape(value);
    const RowMoves moves = moves_for(*window, whole[2], whole_out[2], context_.tensor_part, context_.tensor_parts);
    if (moves.wants == moves.has) return placed_as(value, Placement::rows);
    // Images are on every rank, and nobody asks for their gradient.
    if (placement_of(value) == Placement::whole && !trains(value))
      return convert(value, Placement::rows, cut_rows(moves, window->edge, whole));
    return convert(placed_as(value, Placement::rows), Placement::rows, fetch_rows(moves, window->edge, whole));
  }

  ValueId convert(ValueId value, Placement wanted, PlacementConversion by) {
    for (const ReadAs& known : conversions_[value])
      if (known.placement == wanted && known.by.rows == by.rows && known.by.edge == by.edge) return known.value;
    const ValueId converted =
        new_value({graph_[value].name + suffix_of(wanted), by.shape, graph_[value].dtype, Role::activation});
    trains_[static_cast<std::size_t>(converted)] = trains(value);
    placements_[converted] = wanted;
    if (wanted == Placement::rows) heights_[converted] = whole_shape(value)[2];
    const auto differs = [&](const RowRun& run) { return run.count() != by.rows.front().count(); };
    graph_.rows_differ = graph_.rows_differ || std::ranges::any_of(by.rows, differs);
    add(by.forward, {value}, {converted}, Phase::forward);
    conversions_[value].push_back({wanted, std::move(by), converted});
    return converted;
  }

  static const char* suffix_of(Placement placement) {
    switch (placement) {
      case Placement::whole:
        return " whole";
      case Placement::channels:
        return " part";
      case Placement::rows:
        return " rows";
      case Placement::blocks:
        return " block";
      case Placement::shared:
        return " shared";
    }
    return "";
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
    for (const ReadAs& read : found->second) {
      add_gradients_of_conversions(read.value);
      const auto gradients = gradients_.find(read.value);
      if (gradients == gradients_.end()) continue;
      const ValueId gradient = sum_of(gradients->second);
      const ValueId back =
          new_value({"d " + graph_[value].name, graph_[value].shape, graph_[value].dtype, Role::gradient});
      add(read.by.backward, {gradient}, {back}, Phase::backward_input);
      gradients_[value].push_back(back);
    }
  }

  // Each rank's rows give a part of the gradients of parameters that all ranks have.
  void add_up_gradient_parts() {
    for (const auto& [part, gradient] : gradient_parts_) {
      AllReduce op;
      op.axis = Axis::tensor;
      emit(op, {part}, {gradient}, Phase::backward_weight);
    }
    gradient_parts_.clear();
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
    add_up_gradient_parts();
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
  std::map<ValueId, Placement> placements_;                       // of values that are not whole
  std::map<ValueId, std::int64_t> heights_;                       // whole, of values in rows
  std::map<ValueId, std::vector<ReadAs>> conversions_;            // value -> the same value as others read it
  std::vector<std::pair<ValueId, ValueId>> gradient_parts_;       // of parameters, and what they add up to
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
