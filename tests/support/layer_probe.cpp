#include "support/layer_probe.h"

#include <map>

#include <fmt/format.h>

#include "core/error.h"

namespace trifold::test {
namespace {

std::unique_ptr<Layer> make_layer(const LayerQuestion& question) {
  const LayerType* type = find_layer_type(question.type);
  TRIFOLD_CHECK(type != nullptr, "no layer type '{}'", question.type);
  FieldValues values = defaults_of(type->fields);
  for (const auto& [name, value] : question.fields) values.set(name, value);
  return type->make(values);
}

// A builder that writes down what it is asked to add. Inputs are x (x0, x1, ... where there are several), the output y.
class ProbeBuilder final : public ForwardBuilder, public GradientBuilder {
 public:
  ProbeBuilder(const LayerQuestion& question, const Layer& layer) : question_(question) {
    for (std::size_t i = 0; i < question.in.size(); ++i)
      inputs_.push_back(add_value(question.in.size() == 1 ? "x" : fmt::format("x{}", i), question.in[i]));
    out_ = add_value("y", layer.infer_shape(question.in));
    out_gradient_ = add_value("dy", shapes_[static_cast<std::size_t>(out_)]);
    for (const ParameterSpec& parameter : layer.parameters(question.in))
      named_[parameter.name] = add_value(parameter.name, parameter.shape);
  }

  const ModelContext& context() const override { return question_.context; }
  Mode mode() const override { return question_.mode; }
  int layer_index() const override { return 3; }
  ValueId in(int index) const override { return inputs_[static_cast<std::size_t>(index)]; }
  int in_count() const override { return static_cast<int>(inputs_.size()); }
  ValueId out() const override { return out_; }
  ValueId parameter(const std::string& name) const override { return named_.at(name); }
  const Shape& shape(ValueId value) const override { return shapes_[static_cast<std::size_t>(value)]; }
  ValueId make(const std::string& name, const Shape& shape, DType) override {
    return named_[name] = add_value(name, shape);
  }
  ValueId made(const std::string& name) const override { return named_.at(name); }
  ValueId labels() override { return add_value("labels", {question_.context.batch}); }
  ValueId targets() override { return add_value("targets", question_.in[0]); }
  ValueId out_gradient() const override { return out_gradient_; }
  bool wants_gradient(int input) const override {
    return question_.wants_gradient.empty() || question_.wants_gradient[static_cast<std::size_t>(input)];
  }
  ValueId make_in_gradient(int input) override { return add_value("d" + name_of_value(in(input)), shape(in(input))); }
  void set_in_gradient(int input, ValueId gradient) override {
    nodes_.push_back(fmt::format("{} gradient = {}", name_of_value(in(input)), name_of_value(gradient)));
  }
  ValueId parameter_gradient(const std::string& name) override { return add_value("d" + name, shape(named_.at(name))); }
  void add(OpPtr op, std::vector<ValueId> in, std::vector<ValueId> out, Phase phase) override {
    nodes_.push_back(fmt::format("{} {} ({}) -> {}", phase_letter(phase), to_string(*op), names_of(in), names_of(out)));
  }

  void add_at_forward_end(OpPtr op, std::vector<ValueId> in, std::vector<ValueId> out) override {
    nodes_.push_back(fmt::format("F at the end: {} ({}) -> {}", to_string(*op), names_of(in), names_of(out)));
  }

  const std::vector<std::string>& nodes() const { return nodes_; }

 private:
  static char phase_letter(Phase phase) {
    return phase == Phase::forward ? 'F' : phase == Phase::backward_input ? 'B' : 'W';
  }
  ValueId add_value(const std::string& name, const Shape& shape) {
    names_.push_back(name);
    shapes_.push_back(shape);
    return static_cast<ValueId>(names_.size()) - 1;
  }
  const std::string& name_of_value(ValueId value) const { return names_[static_cast<std::size_t>(value)]; }
  std::string names_of(const std::vector<ValueId>& values) const {
    std::string text;
    for (const ValueId value : values) text += (text.empty() ? "" : ", ") + name_of_value(value);
    return text;
  }

  const LayerQuestion& question_;
  std::vector<std::string> names_;
  std::vector<Shape> shapes_;
  std::vector<ValueId> inputs_;
  std::map<std::string, ValueId> named_;  // parameters and what the layer made
  ValueId out_ = kNoValue;
  ValueId out_gradient_ = kNoValue;
  std::vector<std::string> nodes_;
};

}  // namespace

std::string shape_answer(const LayerQuestion& question) try {
  const std::unique_ptr<Layer> layer = make_layer(question);
  const Shape shape = layer->infer_shape(question.in);
  ProbeBuilder builder(question, *layer);
  layer->forward(builder);
  return to_string(shape);
} catch (const ShapeError& error) {
  return "error: " + error.message;
}

std::vector<std::string> nodes_of(const LayerQuestion& question) {
  const std::unique_ptr<Layer> layer = make_layer(question);
  ProbeBuilder builder(question, *layer);
  layer->forward(builder);
  if (question.mode == Mode::train) layer->backward(builder);
  return builder.nodes();
}

std::vector<ParameterSpec> parameters_of(const LayerQuestion& question) {
  return make_layer(question)->parameters(question.in);
}

}  // namespace trifold::test
