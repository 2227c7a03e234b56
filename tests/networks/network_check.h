// Trains a job for a few steps and compares each with the plain network (plain_network.h), from the state that the step
// began with: loss, gradients, updated parameters, states of layers and of the optimiser, and what evaluation says
// after. On the host, every kernel is also compared with the reference on the inputs that it had (node_check.h).
#pragma once

#include <string>
#include <vector>

#include "runtime/config/job.h"

namespace trifold::test {

struct Difference {
  std::string what;  // "step 2: gradient of conv2d_0.weight[17]"
  double error = 0;
  double allowed = 0;
};

struct NetworkCheck {
  std::vector<Difference> differences;
  double closest = 0;       // largest error over what is allowed, of all that was compared
  std::string tightest;     // where that was
  int kinked_steps = 0;     // of which gradients could not be compared: every batch drawn came too close to a kink
  int nodes = 0;            // kernels that were compared
  bool overflowed = false;  // an activation grew beyond fp16; from that step on, nothing was compared
};

// `seed`: of weights and batches. Throws what the program throws.
NetworkCheck check_network(const Job& job, std::uint64_t seed);

std::string to_string(const NetworkCheck& check);  // a line each difference

}  // namespace trifold::test
