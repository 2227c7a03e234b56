// Losses and log-softmax over a range of rows [N, K] on the calling thread. A label of -1 marks a row that is not
// there: it adds nothing and its gradient is 0. Every output may be written over the input.
#pragma once

#include <cstdint>

#include "core/parallel.h"

namespace trifold::cpu {

struct LogSoftmaxForwardArgs {
  std::int64_t classes = 0;  // K
  const float* x = nullptr;  // [N, K]
  float* y = nullptr;        // [N, K] log-probabilities
};

struct LogSoftmaxBackwardArgs {
  std::int64_t classes = 0;
  const float* dy = nullptr;
  const float* y = nullptr;
  float* dx = nullptr;
};

// target_k = weight_k * ((1 - smoothing) * [k == label] + smoothing / K); loss_i = -sum(target * log p).
struct CrossEntropyArgs {
  std::int64_t classes = 0;
  const float* input = nullptr;          // [N, K]: logits; for nll log-probabilities
  const std::int32_t* labels = nullptr;  // [N], -1 or in [0, K)
  const float* class_weights = nullptr;  // [K], or none
  float smoothing = 0;
  float factor = 1;           // of the gradient: that of factor * sum(loss_i)
  float* gradient = nullptr;  // [N, K], or none
};

// loss = sum of (y - target)^2.
struct SquaredErrorArgs {
  std::int64_t features = 0;
  const float* y = nullptr;              // [N, F]
  const float* target = nullptr;         // [N, F]
  const std::int32_t* labels = nullptr;  // [N], or none; only -1 matters
  float factor = 1;                      // of the gradient
  float* gradient = nullptr;             // [N, F], or none
};

struct LossReport {
  double loss = 0;           // sum over the rows
  std::int64_t correct = 0;  // rows whose first largest input is the label's
};

struct LossLoops {
  void (*log_softmax_forward)(const LogSoftmaxForwardArgs& args, Range rows);
  void (*log_softmax_backward)(const LogSoftmaxBackwardArgs& args, Range rows);
  LossReport (*softmax_cross_entropy)(const CrossEntropyArgs& args, Range rows);
  LossReport (*nll)(const CrossEntropyArgs& args, Range rows);
  LossReport (*squared_error)(const SquaredErrorArgs& args, Range rows);
};

const LossLoops& loss_loops();

}  // namespace trifold::cpu
