// gelu: y = x * P(X <= x) for a standard normal X, by the error function and not its tanh approximation.
#include "layers/activation_layer.h"

namespace trifold {
namespace {

const RegisterLayer register_gelu({
    .name = "gelu",
    .help = "x times the normal distribution function of x",
    .fields = {},
    .make = [](const FieldValues&) -> std::unique_ptr<Layer> {
      return std::make_unique<ActivationLayer>(Activation::gelu);
    },
});

}  // namespace
}  // namespace trifold
