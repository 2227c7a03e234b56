// The element-wise layers (relu, gelu, ...): one for each function of kernels/activations, under its name and with its
// parameters as fields.
#include "kernels/ops/activation.h"
#include "layers/layer.h"

namespace trifold {
namespace {

class ActivationLayer final : public Layer {
 public:
  ActivationLayer(Activation function, const ActivationParameters& parameters)
      : function_(function), parameters_(parameters) {}

  Shape infer_shape(std::span<const Shape> in) const override { return in[0]; }

  bool is_channel_local() const override { return true; }
  bool is_element_wise() const override { return true; }
  std::optional<RowWindow> row_window() const override { return RowWindow{}; }

  void forward(ForwardBuilder& b) const override { b.emit(op<ActivationForward>(), {b.in()}, {b.out()}); }

  void backward(GradientBuilder& b) const override {
    if (!b.wants_gradient()) return;
    const ValueId kept = traits_of(function_).gradient_from == GradientFrom::output ? b.out() : b.in();
    b.emit(op<ActivationBackward>(), {b.out_gradient(), kept}, {b.make_in_gradient()}, Phase::backward_input);
  }

 private:
  template <class T>
  T op() const {
    T op;
    op.function = function_;
    op.parameters = parameters_;
    return op;
  }

  Activation function_;
  ActivationParameters parameters_;
};

template <Activation kFunction>
std::unique_ptr<Layer> make(const FieldValues& values) {
  ActivationParameters parameters = {};
  std::size_t i = 0;
  for (const ActivationParameter& parameter : traits_of(kFunction).parameters)
    parameters[i++] = values.number(parameter.name);
  return std::make_unique<ActivationLayer>(kFunction, parameters);
}

template <Activation kFunction>
LayerType layer_type() {
  const ActivationTraits& traits = traits_of(kFunction);
  LayerType type{.name = std::string(traits.name), .help = traits.help, .fields = {}, .make = make<kFunction>};
  for (const ActivationParameter& parameter : traits.parameters)
    type.fields.push_back({.name = parameter.name,
                           .kind = FieldKind::number,
                           .fallback = parameter.fallback,
                           .minimum = parameter.minimum,
                           .help = parameter.help});
  return type;
}

#define TRIFOLD_REGISTER(name, Function) const RegisterLayer register_##name(layer_type<Activation::name>());
TRIFOLD_FOR_EACH_ACTIVATION(TRIFOLD_REGISTER)

}  // namespace
}  // namespace trifold
