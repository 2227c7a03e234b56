// Elements of one float type (f64, f32, f16, bf16) into another, one by one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace trifold::reference {

void convert(DType from_type, const std::byte* from, DType to_type, std::byte* to, std::int64_t elements);

}  // namespace trifold::reference
