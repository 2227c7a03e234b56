#include "kernels/ops/batch_norm.h"

#include "kernels/ops/op_tensors.h"

namespace trifold {
namespace {

// [groups, C]: groups divide the samples.
void check_statistics(const OpTensors& tensors, const OpTensor& tensor, const OpTensor& x) {
  tensors.rank(tensor, 2);
  const std::int64_t groups = tensor.shape[0];
  if (groups < 1 || x.shape.batch() % groups != 0 || tensor.shape[1] != x.shape.channels())
    tensors.fail(fmt::format("has '{}' of shape {} for '{}' of shape {}", tensor.name, to_string(tensor.shape), x.name,
                             to_string(x.shape)));
}

void check_mask(const OpTensors& tensors, const OpTensor& mask, const OpTensor& x) {
  tensors.type(mask, DType::u8);
  tensors.shape(mask, {x.shape.batch() * x.shape.channels() * ((x.shape.pixels() + 7) / 8)});
}

// mean, istd, gamma, beta from input `first` on
void check_normalisation(const OpTensors& tensors, const OpTensor& x, std::size_t first) {
  for (const std::size_t i : {first, first + 1}) check_statistics(tensors, tensors.in(i), x);
  for (const std::size_t i : {first + 2, first + 3}) tensors.channel_vector(tensors.in(i), x);
}

}  // namespace

void BatchNormStatistics::check_shapes(const OpTensors& tensors) const {
  tensors.counts(3, 4);
  const OpTensor& x = tensors.in(0);
  for (const std::size_t i : {0, 1}) check_statistics(tensors, tensors.out(i), x);
  for (const std::size_t i : {1, 2}) tensors.channel_vector(tensors.in(i), x);
  for (const std::size_t i : {2, 3}) tensors.channel_vector(tensors.out(i), x);
}

void BatchNormJoin::check_shapes(const OpTensors& tensors) const {
  tensors.counts(4, span > 1 ? 4 : 2);
  const OpTensor& mean = tensors.in(0);
  tensors.same(tensors.in(1), mean);
  for (const std::size_t i : {2, 3}) tensors.channel_vector(tensors.in(i), mean);
  for (const std::size_t i : {0, 1}) tensors.channel_vector(tensors.out(i), mean);
  for (std::size_t i = 2; i < tensors.out().size(); ++i) tensors.shape(tensors.out(i), {1, mean.shape.channels()});
}

void BatchNormJoinRows::check_shapes(const OpTensors& tensors) const {
  tensors.counts(running ? 4 : 2, running ? 4 : 2);
  for (const std::size_t i : {0, 1})
    tensors.times(tensors.in(i), tensors.out(0), static_cast<std::int64_t>(pixels.size()));
  tensors.same(tensors.out(1), tensors.out(0));
  for (std::size_t i = 2; i < tensors.out().size(); ++i) tensors.channel_vector(tensors.out(i), tensors.in(0));
}

void BatchNormRunning::check_shapes(const OpTensors& tensors) const {
  tensors.counts(2, 2);
  for (const std::size_t i : {0, 1}) tensors.shape(tensors.out(i), {1, tensors.in(0).shape[0]});
}

void BatchNormApply::check_shapes(const OpTensors& tensors) const {
  const bool masked = tensors.out().size() == 2 && relu && residual;
  tensors.counts(residual ? 6 : 5, masked ? 2 : 1);
  const OpTensor& x = tensors.in(0);
  check_normalisation(tensors, x, 1);
  tensors.same(tensors.out(0), x);
  if (residual) tensors.same(tensors.in(5), x);
  if (masked) check_mask(tensors, tensors.out(1), x);
}

void BatchNormBackwardReduce::check_shapes(const OpTensors& tensors) const {
  const bool bits = mask == ReluMask::bits;
  tensors.counts(6u + second_gradient + bits, 4u + write_d);
  const OpTensor& x = tensors.in(1);
  tensors.same(tensors.in(0), x);
  check_normalisation(tensors, x, 2);
  if (second_gradient) tensors.same(tensors.in(6), x);
  if (bits) check_mask(tensors, tensors.in().back(), x);
  for (const std::size_t i : {0, 1}) check_statistics(tensors, tensors.out(i), x);
  for (const std::size_t i : {2, 3}) tensors.channel_vector(tensors.out(i), x);
  if (write_d) tensors.same(tensors.out(4), x);
}

void BatchNormBackwardInput::check_shapes(const OpTensors& tensors) const {
  tensors.counts(8, 1);
  const OpTensor& x = tensors.in(1);
  tensors.same(tensors.in(0), x);
  check_normalisation(tensors, x, 2);
  for (const std::size_t i : {6, 7}) check_statistics(tensors, tensors.in(i), x);
  tensors.same(tensors.out(0), x);
}

}  // namespace trifold
