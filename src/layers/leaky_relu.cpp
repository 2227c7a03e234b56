// leaky_relu: y = x where x > 0, slope * x elsewhere. The gradient is read from y's sign, so the slope is above 0.
#include "layers/activation_layer.h"

namespace trifold {
namespace {

const RegisterLayer register_leaky_relu({
    .name = "leaky_relu",
    .help = "x where x > 0, slope times x elsewhere",
    .fields = {{.name = "slope",
                .kind = FieldKind::number,
                .fallback = 0.01,
                .minimum = 1e-6,
                .help = "of the negative side, above 0"}},
    .make = [](const FieldValues& values) -> std::unique_ptr<Layer> {
      return std::make_unique<ActivationLayer>(Activation::leaky_relu, values.number("slope"));
    },
});

}  // namespace
}  // namespace trifold
