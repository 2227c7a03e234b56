// Kernels of the reference are templates on the type of their floating tensors, float or double; arithmetic is in
// double either way, so that a program of f64 tensors is the exact function up to double rounding.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/kernel.h"

namespace trifold::reference {

// Whether this tensor's type does not follow the others' (reports, the loss scale).
using HasOwnType = bool (*)(const KernelRequest& request, Op::Side side, std::size_t index);

inline bool follows(const KernelRequest&, Op::Side, std::size_t) {
  return false;
}

// f64 or f32: the type of the first input or, where that is no float, of the first output. Throws where another
// floating tensor has another type.
DType element_type(const KernelRequest& request, HasOwnType has_own_type);

// The factory for RegisterKernel: make_for_type<AddKernel<float>, AddKernel<double>>. (Not a template template
// parameter: GCC 12 merges such factories of equally named kernels in the unnamed namespaces of two files.)
template <class InFloat, class InDouble, HasOwnType has_own_type = follows>
KernelPtr make_for_type(const KernelRequest& request) {
  if (element_type(request, has_own_type) == DType::f64) return std::make_unique<InDouble>(request);
  return std::make_unique<InFloat>(request);
}

}  // namespace trifold::reference
