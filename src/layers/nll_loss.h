// The negative log-likelihood: softmax_cross_entropy for a network that has taken the logarithm of the softmax itself.
#pragma once

#include "layers/layer.h"

namespace trifold {

// From softmax_cross_entropy's fields.
std::unique_ptr<Layer> make_nll_loss(const FieldValues& values);

}  // namespace trifold
