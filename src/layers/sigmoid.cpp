// sigmoid: y = 1 / (1 + exp(-x)), element by element.
#include "layers/activation_layer.h"

namespace trifold {
namespace {

const RegisterLayer register_sigmoid({
    .name = "sigmoid",
    .help = "1 / (1 + exp(-x))",
    .fields = {},
    .make = [](const FieldValues&) -> std::unique_ptr<Layer> {
      return std::make_unique<ActivationLayer>(Activation::sigmoid);
    },
});

}  // namespace
}  // namespace trifold
