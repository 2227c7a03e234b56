// dropout2d: zeroes whole channels of a sample at random in training. x [N,C,H,W] -> y of the same shape.
#include "layers/dropout_layer.h"

namespace trifold {
namespace {

const RegisterLayer register_dropout2d({
    .name = "dropout2d",
    .help = "zeroes whole channels at random while training",
    .fields = DropoutLayer::fields(),
    .make = [](const FieldValues& values) -> std::unique_ptr<Layer> {
      return std::make_unique<DropoutLayer>(DropoutLayer::Drops::channels, values.number("p"));
    },
});

}  // namespace
}  // namespace trifold
