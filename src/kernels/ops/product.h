// A product y = x * w: a convolution or a matrix product. Three ops make one each of its tensors from the other two:
// y going forward, dx and dw going backward. In those two, x, w and y stand for dx, dw and dy where that is meant.
#pragma once

#include <span>
#include <type_traits>

#include "kernels/op.h"

namespace trifold {

enum class ProductPass { forward, backward_data, backward_weights };

template <class T>
struct ProductOperands {
  T& x;
  T& w;
  T& y;
};

// Inputs and outputs of a pass (their descriptions, layouts, ...) by what they are in the product. A bias comes after.
template <class In, class Out>
auto operands_of(ProductPass pass, In& in, Out& out) {
  auto& x = pass == ProductPass::backward_data ? out[0] : in[0];
  auto& w = pass == ProductPass::backward_weights ? out[0] : in[1];
  auto& y = pass == ProductPass::forward ? out[0] : pass == ProductPass::backward_data ? in[0] : in[1];
  return ProductOperands<std::remove_reference_t<decltype(x)>>{x, w, y};
}

struct Product : Op {
  virtual ProductPass pass() const = 0;
};

}  // namespace trifold
