#include "kernels/ops/halo.h"

#include "kernels/ops/op_tensors.h"

namespace trifold {

void RowExchange::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  tensors.rows_of(tensors.in(0), tensors.in(0), moves.mine().count());
  tensors.rows_of(tensors.out(0), tensors.in(0), moves.wanted().count());
}

void HaloAdd::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  tensors.rows_of(tensors.in(0), tensors.in(0), moves.wanted().count());
  tensors.rows_of(tensors.out(0), tensors.in(0), moves.mine().count());
}

void TakeRows::check_shapes(const OpTensors& tensors) const {
  tensors.counts(1, 1);
  tensors.rank(tensors.out(0), 4);
  tensors.rows_of(tensors.out(0), tensors.in(0), tensors.out(0).shape[2]);
}

}  // namespace trifold
