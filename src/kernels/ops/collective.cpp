#include "kernels/ops/collective.h"

#include "kernels/ops/op_tensors.h"

namespace trifold {

void AllReduce::check_shapes(const OpTensors& tensors) const {
  tensors.all_alike(1);
}

void AllGather::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  tensors.times(tensors.out(0), tensors.in(0), tensors.out(0).shape[0] / tensors.in(0).shape[0]);
}

void ReduceScatter::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  tensors.times(tensors.in(0), tensors.out(0), tensors.in(0).shape[0] / tensors.out(0).shape[0]);
}

void GatherChannels::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  tensors.channels_of_part(tensors.in(0), tensors.out(0));
}

void Send::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 0);
}
void Receive::check_shapes(const OpTensors& tensors) const {
  tensors.counts(0, 1);
}

}  // namespace trifold
