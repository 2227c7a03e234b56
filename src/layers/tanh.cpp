// tanh: the hyperbolic tangent, element by element.
#include "layers/activation_layer.h"

namespace trifold {
namespace {

const RegisterLayer register_tanh({
    .name = "tanh",
    .help = "the hyperbolic tangent of x",
    .fields = {},
    .make = [](const FieldValues&) -> std::unique_ptr<Layer> {
      return std::make_unique<ActivationLayer>(Activation::tanh);
    },
});

}  // namespace
}  // namespace trifold
