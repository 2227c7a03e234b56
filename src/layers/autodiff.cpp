#include "layers/autodiff.h"

#include "core/error.h"
#include "kernels/ops/shape_ops.h"
#include "layers/layer_window.h"

namespace trifold {
namespace {

// Goes back over the layers. By the time it reaches one, all that read the layer's output have given their gradients.
class Differentiator final : public LayerWindow, public GradientBuilder {
 public:
  explicit Differentiator(ForwardGraph& forward)
      : LayerWindow(forward, static_cast<int>(forward.layers.size()), Role::gradient) {}

  void run() {
    while (current_ > 0) {
      --current_;
      add_backward();
    }
  }

  ValueId out_gradient() const override { return out_gradient_; }
  bool wants_gradient(int input) const override { return forward_.is_trained(in(input)); }

  ValueId make_in_gradient(int input) override {
    const ValueId gradient = make_gradient_of(in(input));
    set_in_gradient(input, gradient);
    return gradient;
  }

  void set_in_gradient(int input, ValueId gradient) override {
    if (wants_gradient(input)) gradients_[in(input)].push_back(gradient);
  }

  ValueId parameter_gradient(const std::string& name) override {
    Parameter& parameter = declared(name);
    const Shape shape = forward_.graph[parameter.value].shape;
    if (parameter.gradient == kNoValue)
      parameter.gradient = forward_.add_value({"d " + parameter.name, shape, DType::f32, Role::parameter_gradient});
    if (!layer().parameter_gradient_op) return parameter.gradient;
    const ValueId term = forward_.add_value({"d " + parameter.name + " part", shape, DType::f32, Role::gradient});
    terms_.push_back({term, parameter.gradient});
    return term;
  }

 private:
  // The gradient of a parameter as the layer makes it, and what parameter_gradient_op makes of it.
  struct Term {
    ValueId from;
    ValueId to;
  };

  void add_backward() {
    if (!forward_.is_trained(layer().out)) return;
    out_gradient_ = kNoValue;
    if (!layer().layer->is_loss()) {
      add_gradients_of_conversions(layer().out);
      const auto found = gradients_.find(layer().out);
      if (found == gradients_.end()) return;  // nothing that the loss depends on
      out_gradient_ = sum_of(found->second);
    }
    layer().layer->backward(*this);
    for (const Term& term : terms_) add(layer().parameter_gradient_op, {term.from}, {term.to}, Phase::backward_weight);
    terms_.clear();
  }

  // The gradients of what the value was converted to become gradients of the value.
  void add_gradients_of_conversions(ValueId value) {
    const auto conversions = forward_.conversions.find(value);
    if (conversions == forward_.conversions.end()) return;
    for (const Conversion& conversion : conversions->second) {
      add_gradients_of_conversions(conversion.to);
      const auto found = gradients_.find(conversion.to);
      if (found == gradients_.end()) continue;
      ValueId gradient = sum_of(found->second);
      if (conversion.gradient) {
        const ValueId back = make_gradient_of(value);
        add(conversion.gradient, {gradient}, {back}, Phase::backward_input);
        gradient = back;
      }
      gradients_[value].push_back(gradient);
    }
  }

  // A value that several layers read gets the sum of their gradients.
  ValueId sum_of(const std::vector<ValueId>& gradients) {
    ValueId total = gradients[0];
    for (std::size_t i = 1; i < gradients.size(); ++i) {
      const Value first = forward_.graph[total];
      const ValueId sum = forward_.add_value({first.name + " sum", first.shape, first.dtype, Role::gradient});
      emit(Add{}, {total, gradients[i]}, {sum}, Phase::backward_input);
      total = sum;
    }
    return total;
  }

  ValueId make_gradient_of(ValueId value) {
    const Value of = forward_.graph[value];
    return forward_.add_value({"d " + of.name, of.shape, of.dtype, Role::gradient});
  }

  std::map<ValueId, std::vector<ValueId>> gradients_;  // value -> contributions to its gradient
  std::vector<Term> terms_;                            // of the layer at hand
  ValueId out_gradient_ = kNoValue;
};

}  // namespace

Graph add_gradients(ForwardGraph forward) {
  TRIFOLD_CHECK(forward.mode == Mode::train, "only what trains has gradients");
  Differentiator(forward).run();
  return std::move(forward.graph);
}

}  // namespace trifold
