// Losses and log-softmax. A loss op's first output is its report: two f64, the loss (already divided by the global
// batch) and the number of correct samples. Its second is the gradient, already divided by the global batch too:
// averaging happens here and nowhere else. A label of -1 marks a row that is not there (the tail of an evaluation set).
#pragma once

#include <fmt/format.h>

#include "kernels/op.h"

namespace trifold {

// in: x [N,K]; out: log-probabilities [N,K]
struct LogSoftmaxForward final : Op {
  std::string_view name() const override { return "log_softmax.forward"; }
  OpKind kind() const override { return OpKind::reduction; }
  void check_shapes(const OpTensors& tensors) const override;
  bool keeps_f32(Side, int) const override { return true; }
};

// in: dy, y; out: dx
struct LogSoftmaxBackward final : Op {
  std::string_view name() const override { return "log_softmax.backward"; }
  OpKind kind() const override { return OpKind::reduction; }
  void check_shapes(const OpTensors& tensors) const override;
  bool keeps_f32(Side, int) const override { return true; }
};

// in: logits [N,K], labels i32 [N]; out: report f64 [2], [gradient [N,K] (gradient)].
// target_k = weight_k * ((1-smoothing) * [k == label] + smoothing/K); loss_i = -sum(target * log p), weight_k being 1
// without class_weights. With them the mean is a weighted one, as PyTorch's: the sum is divided by the weights of the
// batch's labels, which is global_batch * StepContext::mean_class_weight.
// log_input: the input holds log-probabilities already (the plain negative log-likelihood).
struct CrossEntropy final : Op {
  double smoothing = 0;
  std::vector<float> class_weights;  // [K] or empty
  bool log_input = false;
  bool gradient = true;
  std::int64_t global_batch = 1;

  std::string_view name() const override { return "cross_entropy"; }
  OpKind kind() const override { return OpKind::reduction; }
  void check_shapes(const OpTensors& tensors) const override;
  bool keeps_f32(Side, int) const override { return true; }
  std::string attributes() const override { return log_input ? "of log-probabilities" : "with softmax"; }
  std::vector<int> in_place(int out) const override { return out == 1 ? std::vector<int>{0} : std::vector<int>{}; }
};

// in: y [N,F], targets f32 [N,F], labels i32 [N] (only -1 matters); out: report f64 [2] (mean over F; 0 correct),
// [gradient (gradient)]
struct MeanSquares final : Op {
  bool gradient = true;
  std::int64_t global_batch = 1;

  std::string_view name() const override { return "mse"; }
  OpKind kind() const override { return OpKind::reduction; }
  void check_shapes(const OpTensors& tensors) const override;
  bool keeps_f32(Side, int) const override { return true; }
  std::vector<int> in_place(int out) const override { return out == 1 ? std::vector<int>{0} : std::vector<int>{}; }
};

}  // namespace trifold
