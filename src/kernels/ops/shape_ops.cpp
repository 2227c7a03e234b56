#include "kernels/ops/shape_ops.h"

#include <fmt/format.h>

#include "kernels/ops/op_tensors.h"

namespace trifold {

void Add::check_shapes(const OpTensors& tensors) const {
  tensors.all_alike(2);
}

void Concat::check_shapes(const OpTensors& tensors) const {
  tensors.counts(tensors.in().size(), 1);
  const OpTensor& whole = tensors.out(0);
  std::int64_t channels = 0;
  for (const OpTensor& part : tensors.in()) channels += tensors.channels_of_part(part, whole);
  if (channels != whole.shape.channels())
    tensors.fail(fmt::format("joins {} channels to '{}', which has {}", channels, whole.name, whole.shape.channels()));
}

void SplitChannels::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, first_channel.size());
  const OpTensor& whole = tensors.in(0);
  for (std::size_t i = 0; i < tensors.out().size(); ++i) {
    const OpTensor& part = tensors.out(i);
    if (first_channel[i] + tensors.channels_of_part(part, whole) > whole.shape.channels())
      tensors.fail(fmt::format("takes '{}' from beyond the channels of '{}'", part.name, whole.name));
  }
}

void Reshape::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  tensors.times(tensors.out(0), tensors.in(0), 1);
  tensors.type(tensors.out(0), tensors.in(0).dtype);
}

void Cast::check_shapes(const OpTensors& tensors) const {
  tensors.counts(scaled ? 2 : 1, 1);
  tensors.same(tensors.out(0), tensors.in(0));
}

void Reorder::check_shapes(const OpTensors& tensors) const {
  tensors.all_alike(1);
  tensors.type(tensors.out(0), tensors.in(0).dtype);
}

}  // namespace trifold
