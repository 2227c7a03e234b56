// What a tensor is (TensorDesc) and a tensor in memory that somebody else owns (nothing here allocates).
#pragma once

#include <cstddef>
#include <string>

#include "core/dtype.h"
#include "core/layout.h"
#include "core/shape.h"

namespace trifold {

struct TensorDesc {
  Shape shape;
  DType dtype = DType::f32;
  Layout layout = {};

  std::int64_t elements() const { return shape.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  bool operator==(const TensorDesc&) const = default;
};

std::string to_string(const TensorDesc& desc);  // "f32 16x64x56x56 nChw8c"

}  // namespace trifold
