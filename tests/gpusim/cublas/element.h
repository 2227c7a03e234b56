// The floating-point element types that the library stand-ins compute with. Arithmetic is in float; values are widened
// when they are read and rounded once, to nearest even, when they are stored.
#pragma once

#include <cstddef>
#include <cstring>

#include "ptx/half.h"

namespace gpusim {

enum class Element { f32, f16, bf16 };

inline std::size_t bytes_of(Element type) {
  return type == Element::f32 ? 4 : 2;
}

inline const char* name_of(Element type) {
  return type == Element::f32 ? "f32" : type == Element::f16 ? "f16" : "bf16";
}

// Calls `body` with a value of the C++ type that `type` stands for.
template <class Body>
void with_element(Element type, const Body& body) {
  switch (type) {
    case Element::f32:
      return body(float{});
    case Element::f16:
      return body(ptx::Half{});
    case Element::bf16:
      return body(ptx::Bfloat{});
  }
}

// What `value` becomes when it is stored as `type` and read back.
inline float rounded_to(Element type, float value) {
  switch (type) {
    case Element::f32:
      return value;
    case Element::f16:
      return static_cast<float>(ptx::Half(value));
    case Element::bf16:
      return static_cast<float>(ptx::Bfloat(value));
  }
  return value;
}

}  // namespace gpusim
