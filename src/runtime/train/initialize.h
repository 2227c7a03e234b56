// The first values of parameters and states. They depend on the seed and the parameter's name only, so every plan of a
// network starts from the same model, and adding a layer leaves the others as they were.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/graph.h"

namespace trifold {

std::vector<float> initial_values(const Parameter& parameter, const Shape& shape, std::uint64_t seed);

}  // namespace trifold
