// What changes from step to step, handed to every kernel of the step.
#pragma once

#include <cstdint>

namespace trifold {

struct StepContext {
  std::uint64_t seed = 0;
  std::int64_t first_sample = 0;  // place of the batch's first sample in the whole stream of training samples
  double learning_rate = 0;
  std::int64_t updates = 0;  // optimiser updates done, this one included
  // Mean of the class weights of all samples that the update averages over; 1 where the loss has no class weights.
  double mean_class_weight = 1;
};

}  // namespace trifold
