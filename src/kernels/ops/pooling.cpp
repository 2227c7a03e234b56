#include "kernels/ops/pooling.h"

#include "kernels/ops/conv2d.h"
#include "kernels/ops/op_tensors.h"

namespace trifold {
namespace {

void check_windows(const OpTensors& tensors, const PoolArgs& args, const OpTensor& x, const OpTensor& y) {
  tensors.rank(x, 4);
  const auto extent = [&](int dim) {
    const auto d = static_cast<std::size_t>(dim);
    return conv_out_extent(x.shape[2 + dim], args.kernel[d], args.stride[d], args.pad[d], 1);
  };
  tensors.shape(y, {x.shape[0], x.shape[1], extent(0), extent(1)});
}

void check_mean(const OpTensors& tensors, const OpTensor& x, const OpTensor& y) {
  tensors.shape(y, {x.shape.batch(), x.shape.channels()});
}

}  // namespace

void MaxPoolForward::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, keep_argmax ? 2 : 1);
  const OpTensor& y = tensors.out(0);
  check_windows(tensors, args, tensors.in(0), y);
  if (!keep_argmax) return;
  tensors.same(tensors.out(1), y);
  tensors.type(tensors.out(1), DType::u8);
}

void MaxPoolBackward::check_shapes(const OpTensors& tensors) const {
  tensors.counts(relu ? 3 : 2, 1);
  const OpTensor& dy = tensors.in(0);
  check_windows(tensors, args, tensors.out(0), dy);
  for (std::size_t i = 1; i < tensors.in().size(); ++i) tensors.same(tensors.in(i), dy);
  tensors.type(tensors.in(1), DType::u8);
}

void AvgPoolForward::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  check_windows(tensors, args, tensors.in(0), tensors.out(0));
}
void AvgPoolBackward::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  check_windows(tensors, args, tensors.out(0), tensors.in(0));
}

void GlobalAvgPoolForward::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  check_mean(tensors, tensors.in(0), tensors.out(0));
}
void GlobalAvgPoolBackward::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  check_mean(tensors, tensors.out(0), tensors.in(0));
}

}  // namespace trifold
