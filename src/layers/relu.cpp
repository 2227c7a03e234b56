// relu: y = max(0, x), element by element.
#include "layers/activation_layer.h"

namespace trifold {
namespace {

const RegisterLayer register_relu({
    .name = "relu",
    .help = "max(0, x)",
    .fields = {},
    .make = [](const FieldValues&) -> std::unique_ptr<Layer> {
      return std::make_unique<ActivationLayer>(Activation::relu);
    },
});

}  // namespace
}  // namespace trifold
