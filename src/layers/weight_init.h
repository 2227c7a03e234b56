// The "init" field of layers with weights and a bias: how both start. fan_in is the number of inputs that an output
// sums.
#pragma once

#include "layers/layer.h"

namespace trifold {

// he: weights normal with variance 2 / fan_in (He et al. 2015), bias 0. uniform: weights uniform between
// -1 / sqrt(fan_in) and 1 / sqrt(fan_in), bias 0. pytorch: weights and bias both uniform so, the default of
// torch.nn.Conv2d and torch.nn.Linear.
Field init_field(const std::string& fallback);

struct WeightInit {
  Init weight;
  Init bias;
};

WeightInit weight_init(const std::string& name, std::int64_t fan_in, std::int64_t fan_out);

}  // namespace trifold
