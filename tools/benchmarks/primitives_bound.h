// The yardstick of a network: its convolutions and inner products as oneDNN's own primitives run them, one after the
// other, with nothing in between.
#pragma once

#include "runtime/config/job.h"

namespace trifold {

// Best of several, summed over the passes that a training step needs.
double primitives_bound_seconds(const Job& job);

}  // namespace trifold
