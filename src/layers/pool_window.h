// The window of max_pool and avg_pool: its JSON fields (kernel; stride, by default the kernel; pad) and its shape rule.
#pragma once

#include "kernels/ops/pooling.h"
#include "layers/layer.h"

namespace trifold {

Fields pool_fields();
PoolArgs pool_args(const FieldValues& values);

// [N,C,H,W] -> [N,C,H',W']. Throws ShapeError when the window does not fit.
Shape pool_shape(const PoolArgs& args, const Shape& x);

// As ranks that share an image by rows see it.
RowWindow pool_rows(const PoolArgs& args, RowEdge edge);

}  // namespace trifold
