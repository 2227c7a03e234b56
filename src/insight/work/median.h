// The value that a report shows of several rounds.
#pragma once

#include <cstddef>
#include <span>

namespace trifold {

// The index of the lower median.
std::size_t median_of(std::span<const double> values);

}  // namespace trifold
