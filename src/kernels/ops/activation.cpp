#include "kernels/ops/activation.h"

#include <algorithm>

#include "kernels/ops/op_tensors.h"

namespace trifold {
namespace {

constexpr ActivationTraits kTraits[] = {
#define TRIFOLD_TRAITS(name, Function) \
  {#name, Function::help, Function::gradient_from, Function::parameters, Function::kinks, Function::samples},
    TRIFOLD_FOR_EACH_ACTIVATION(TRIFOLD_TRAITS)
#undef TRIFOLD_TRAITS
};

static_assert(std::ranges::all_of(kTraits, [](const ActivationTraits& traits) {
  return traits.parameters.size() <= kMostActivationParameters && !traits.samples.empty();
}));

}  // namespace

const ActivationTraits& traits_of(Activation activation) {
  return kTraits[static_cast<std::size_t>(activation)];
}

ActivationParameters default_parameters(Activation activation) {
  ActivationParameters values = {};
  std::ranges::transform(traits_of(activation).parameters, values.begin(), &ActivationParameter::fallback);
  return values;
}

void ActivationForward::check_shapes(const OpTensors& tensors) const {
  tensors.all_alike(1);
}
void ActivationBackward::check_shapes(const OpTensors& tensors) const {
  tensors.all_alike(2);
}

}  // namespace trifold
