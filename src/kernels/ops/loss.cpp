#include "kernels/ops/loss.h"

#include "kernels/ops/op_tensors.h"

namespace trifold {
namespace {

// The labels are the last input.
void check_loss(const OpTensors& tensors, std::size_t inputs, bool gradient) {
  tensors.counts(inputs, gradient ? 2 : 1);
  const OpTensor& x = tensors.in(0);
  const OpTensor& labels = tensors.in().back();
  tensors.rank(x, 2);
  tensors.type(labels, DType::i32);
  tensors.shape(labels, {x.shape[0]});
  tensors.type(tensors.out(0), DType::f64);
  tensors.shape(tensors.out(0), {2});
  if (gradient) tensors.same(tensors.out(1), x);
}

}  // namespace

void LogSoftmaxForward::check_shapes(const OpTensors& tensors) const {
  tensors.all_alike(1);
}
void LogSoftmaxBackward::check_shapes(const OpTensors& tensors) const {
  tensors.all_alike(2);
}
void CrossEntropy::check_shapes(const OpTensors& tensors) const {
  check_loss(tensors, 2, gradient);
}
void MeanSquares::check_shapes(const OpTensors& tensors) const {
  check_loss(tensors, 3, gradient);
  tensors.same(tensors.in(1), tensors.in(0));
}

}  // namespace trifold
