#include "kernels/ops/op_tensors.h"

#include <fmt/format.h>

namespace trifold {

void OpTensors::counts(std::size_t in_count, std::size_t out_count) const {
  if (in_.size() != in_count || out_.size() != out_count)
    fail(
        fmt::format("has {} inputs and {} outputs instead of {} and {}", in_.size(), out_.size(), in_count, out_count));
}

void OpTensors::rank(const OpTensor& tensor, int expected) const {
  if (tensor.shape.rank() != expected)
    fail(fmt::format("has '{}' of shape {}, which has not {} dimensions", tensor.name, to_string(tensor.shape),
                     expected));
}

void OpTensors::shape(const OpTensor& tensor, const Shape& expected) const {
  if (tensor.shape != expected)
    fail(fmt::format("has '{}' of shape {} instead of {}", tensor.name, to_string(tensor.shape), to_string(expected)));
}

void OpTensors::type(const OpTensor& tensor, DType expected) const {
  if (tensor.dtype != expected)
    fail(fmt::format("has '{}' of type {} instead of {}", tensor.name, name_of(tensor.dtype), name_of(expected)));
}

void OpTensors::times(const OpTensor& tensor, const OpTensor& of, std::int64_t factor) const {
  if (tensor.shape.elements() != of.shape.elements() * factor)
    fail(fmt::format("makes '{}' of shape {} from '{}' of shape {}", tensor.name, to_string(tensor.shape), of.name,
                     to_string(of.shape)));
}

void OpTensors::channel_vector(const OpTensor& tensor, const OpTensor& of) const {
  shape(tensor, {of.shape.channels()});
}

std::int64_t OpTensors::channels_of_part(const OpTensor& part, const OpTensor& whole) const {
  Shape expected = whole.shape;
  expected[1] = part.shape.channels();
  shape(part, expected);
  return part.shape.channels();
}

void OpTensors::rows_of(const OpTensor& part, const OpTensor& as, std::int64_t rows) const {
  rank(as, 4);
  shape(part, {as.shape[0], as.shape[1], rows, as.shape[3]});
}

void OpTensors::all_alike(std::size_t in_count) const {
  counts(in_count, 1);
  for (std::size_t i = 1; i < in_count; ++i) same(in_[i], in_[0]);
  same(out_[0], in_[0]);
}

}  // namespace trifold
