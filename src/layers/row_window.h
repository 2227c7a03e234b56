// Which rows of its input a layer needs for rows of its output.
#pragma once

#include "kernels/ops/halo.h"

namespace trifold {

// Row y of the output reads rows y * stride - pad + i * dilation of the input, for i below kernel.
struct RowWindow {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t pad = 0;
  std::int64_t dilation = 1;
  RowEdge edge = RowEdge::zero;  // what the padding holds

  RowRun needed_for(const RowRun& out) const {
    return {out.begin * stride - pad, (out.end - 1) * stride - pad + dilation * (kernel - 1) + 1};
  }
  bool is_local() const { return kernel == 1 && stride == 1 && pad == 0; }
};

}  // namespace trifold
