// The "model" section of a generated job.
#pragma once

#include "networks/dice.h"
#include "networks/random_job.h"

namespace trifold::test {

struct RandomNetwork {
  JobJson model;
  // Batch norm of one value per sample and channel needs a group of two samples or more.
  std::int64_t smallest_bn_group = 1;
  bool regression = false;
  std::int64_t outputs = 0;  // scores, or predictions, per sample
};

RandomNetwork random_network(Dice& dice, NetworkSize size);

}  // namespace trifold::test
