// Optimiser updates over a range of the flat parameter buffers, on the calling thread, in one pass. Coefficients come
// in double: what the loops derive from them (1 - beta, corrections, products of rates) is rounded to float once.
#pragma once

#include "core/parallel.h"

namespace trifold::cpu {

// g = gradient_scale * gradient + weight_decay * weight; velocity = momentum * velocity + g;
// weight -= rate * (nesterov ? g + momentum * velocity : velocity). Without velocity: weight -= rate * g.
struct SgdArgs {
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* velocity = nullptr;  // zeros before the first update; none: no momentum
  double rate = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  double gradient_scale = 1;  // of clipping
};

// mean and square are the averages of g and g^2; their corrections are 1 - beta^updates.
// weight -= rate * (mean / mean_correction) / (sqrt(square / square_correction) + eps).
// adam: g = gradient_scale * gradient + weight_decay * weight. adamw: weight *= 1 - rate * weight_decay first.
struct AdamArgs {
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* mean = nullptr;
  float* square = nullptr;
  double rate = 0;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0;
  std::int64_t updates = 1;  // this one included
  double gradient_scale = 1;
};

// g = gradient_scale * gradient + weight_decay * weight; sum += g^2; weight -= rate * g / (sqrt(sum + initial) + eps).
struct AdagradArgs {
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* sum = nullptr;  // of squares; zeros before the first update
  double rate = 0;
  double eps = 1e-10;
  double initial = 0;
  double weight_decay = 0;
  double gradient_scale = 1;
};

struct OptimizerLoops {
  void (*sgd)(const SgdArgs& args, Range elements);
  void (*adam)(const AdamArgs& args, Range elements);
  void (*adamw)(const AdamArgs& args, Range elements);
  void (*adagrad)(const AdagradArgs& args, Range elements);
  double (*sum_of_squares)(const float* x, Range elements);
  void (*scale)(float* x, float factor, Range elements);  // in place
};

const OptimizerLoops& optimizer_loops();

}  // namespace trifold::cpu
