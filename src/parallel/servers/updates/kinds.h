// The kinds of updates, each made by its file: make_optimizer_update() and make_federated_update() choose.
#pragma once

#include <algorithm>

#include "parallel/servers/updates/slice_update.h"

namespace trifold {

std::unique_ptr<SliceUpdate> make_sgd(const OptimizerArgs& args);   // with and without momentum
std::unique_ptr<SliceUpdate> make_adam(const OptimizerArgs& args);  // and adamw
std::unique_ptr<SliceUpdate> make_adagrad(const OptimizerArgs& args);

std::unique_ptr<SliceUpdate> make_fedavg(const FederatedArgs& args);
std::unique_ptr<SliceUpdate> make_fedadagrad(const FederatedArgs& args);
std::unique_ptr<SliceUpdate> make_fedadam(const FederatedArgs& args);
std::unique_ptr<SliceUpdate> make_fedyogi(const FederatedArgs& args);

// The optimisers' loops change weights in place.
inline void bring_values(std::span<const float> before, std::span<float> values) {
  if (values.data() != before.data()) std::copy(before.begin(), before.end(), values.begin());
}

}  // namespace trifold
