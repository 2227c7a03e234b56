// A few steps of training on drawn batches, for tests that compare one way of running a network with another.
#pragma once

#include <vector>

#include "runtime/train/model.h"

namespace trifold::test {

struct Trained {
  std::vector<double> losses;                  // of every step, then of an evaluation
  std::vector<std::vector<float>> parameters;  // in the network's order
};

// From the same weights on the same batches every time; `options.accumulate` micro-batches an update.
Trained train_network(const NetworkSpec& spec, const ModelOptions& options, int steps);

// One update of a model made with these options on the batch of `step`; the loss.
double run_step(Model& model, const ModelOptions& options, int step);

std::vector<float> first_parameter(Model& model);

// Losses and parameters differ by at most `tolerance`, relative to the loss and to the largest of a parameter.
void expect_same(const Trained& a, const Trained& b, double tolerance);

}  // namespace trifold::test
