#include "kernels/ops/grid.h"

#include "kernels/ops/op_tensors.h"

namespace trifold {
namespace {

void check_line(const OpTensors& tensors, const OpTensor& part, const OpTensor& joined, int side) {
  tensors.shape(joined, {part.shape[0], part.shape[1] * side});
}

void check_block(const OpTensors& tensors, const OpTensor& block, const OpTensor& whole, int side) {
  tensors.shape(whole, {block.shape[0] * side, block.shape[1] * side});
}

}  // namespace

void GridGather::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  check_line(tensors, tensors.in(0), tensors.out(0), grid.side);
}
void GridSumScatter::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  check_line(tensors, tensors.out(0), tensors.in(0), grid.side);
}
void GridSum::check_shapes(const OpTensors& tensors) const {
  tensors.all_alike(1);
}
void GatherBlocks::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  check_block(tensors, tensors.in(0), tensors.out(0), grid.side);
}
void TakeBlock::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  check_block(tensors, tensors.out(0), tensors.in(0), grid.side);
}

}  // namespace trifold
