// Runs a kernel that knows only float on tensors stored in 16 bits: inputs are widened into scratch, the float kernel
// runs, outputs are rounded. Storage is 16 bits, arithmetic is float: what a device without 16-bit arithmetic can do.
#pragma once

#include <functional>

#include "kernels/kernel.h"

namespace trifold {

// Converts `elements` of one float type into another.
using ConvertElements = void (*)(DType from_type, const std::byte* from, DType to_type, std::byte* to,
                                 std::int64_t elements);

bool has_half_tensors(const KernelRequest& request);

// `make` makes the float kernel. The op's attributes stay; tensors in 16 bits become f32 of the same layout.
KernelPtr make_half_as_float(const KernelRequest& request, const std::function<KernelPtr(const KernelRequest&)>& make,
                             ConvertElements convert);

}  // namespace trifold
