// dropout: zeroes elements at random in training. x of any shape -> y of the same.
#include "layers/dropout_layer.h"

namespace trifold {
namespace {

const RegisterLayer register_dropout({
    .name = "dropout",
    .help = "zeroes elements at random while training",
    .fields = DropoutLayer::fields(),
    .make = [](const FieldValues& values) -> std::unique_ptr<Layer> {
      return std::make_unique<DropoutLayer>(DropoutLayer::Drops::elements, values.number("p"));
    },
});

}  // namespace
}  // namespace trifold
