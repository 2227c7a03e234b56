#include "kernels/ops/conv2d.h"

#include <fmt/format.h>

namespace trifold {
namespace {

std::string pair_text(Pair pair) {
  return pair[0] == pair[1] ? std::to_string(pair[0]) : fmt::format("{}x{}", pair[0], pair[1]);
}

// Two a multiply-add: every element of y takes one for each weight of its output channel.
double conv_flops(const Shape& weights, const Shape& output) {
  return 2.0 * static_cast<double>(output.elements()) * static_cast<double>(weights.elements() / weights[0]);
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

double Conv2dForward::flops(std::span<const TensorDesc> in, std::span<const TensorDesc> out) const {
  return conv_flops(in[1].shape, out[0].shape);
}
double Conv2dBackwardData::flops(std::span<const TensorDesc> in, std::span<const TensorDesc> /*out*/) const {
  return conv_flops(in[1].shape, in[0].shape);
}
double Conv2dBackwardWeights::flops(std::span<const TensorDesc> in, std::span<const TensorDesc> out) const {
  return conv_flops(out[0].shape, in[1].shape);
}

}  // namespace trifold
