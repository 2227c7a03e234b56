#include "kernels/ops/conv2d.h"

#include <fmt/format.h>

#include "kernels/ops/op_tensors.h"

namespace trifold {
namespace {

std::string pair_text(Pair pair) {
  return pair[0] == pair[1] ? std::to_string(pair[0]) : fmt::format("{}x{}", pair[0], pair[1]);
}

}  // namespace

std::string Conv2dArgs::text() const {
  std::string text = fmt::format("stride {} pad {}", pair_text(stride), pair_text(pad));
  if (dilation != Pair{1, 1}) text += " dilation " + pair_text(dilation);
  if (groups != 1) text += fmt::format(" groups {}", groups);
  return text;
}

std::int64_t conv_out_extent(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                             std::int64_t dilation) {
  const std::int64_t span = in + 2 * pad - (dilation * (kernel - 1) + 1);
  return span < 0 ? 0 : span / stride + 1;
}

std::string Conv2dForward::attributes() const {
  return args.text() + (bias ? " bias" : "") + (relu ? " relu" : "");
}
std::string Conv2dBackwardWeights::attributes() const {
  return args.text() + (bias ? " bias" : "");
}

// Two a multiply-add: every element of y takes one for each weight of its output channel.
double Convolution::flops(std::span<const TensorDesc> in, std::span<const TensorDesc> out) const {
  const auto [x, w, y] = operands_of(pass(), in, out);
  const std::int64_t weights_of_channel = w.elements() / w.shape[0];
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(weights_of_channel);
}

void Convolution::check_operands(const OpTensors& tensors) const {
  const auto operands = operands_of(pass(), tensors.in(), tensors.out());
  const OpTensor& x = operands.x;
  const OpTensor& w = operands.w;
  const OpTensor& y = operands.y;
  for (const OpTensor* tensor : {&x, &w, &y}) tensors.rank(*tensor, 4);
  tensors.shape(w, {y.shape[1], x.shape[1] / args.groups, w.shape[2], w.shape[3]});
  const auto extent = [&](int dim) {
    const auto d = static_cast<std::size_t>(dim);
    return conv_out_extent(x.shape[2 + dim], w.shape[2 + dim], args.stride[d], args.pad[d], args.dilation[d]);
  };
  tensors.shape(y, {x.shape[0], w.shape[0], extent(0), extent(1)});
}

void Conv2dForward::check_shapes(const OpTensors& tensors) const {
  tensors.counts(bias ? 3 : 2, 1);
  check_operands(tensors);
  if (bias) tensors.channel_vector(tensors.in(2), tensors.out(0));
}
void Conv2dBackwardData::check_shapes(const OpTensors& tensors) const {
  tensors.counts(2, 1);
  check_operands(tensors);
}
void Conv2dBackwardWeights::check_shapes(const OpTensors& tensors) const {
  tensors.counts(2, bias ? 2 : 1);
  check_operands(tensors);
  if (bias) tensors.channel_vector(tensors.out(1), tensors.in(1));
}

}  // namespace trifold
