// From a PTX type to a handler for the C++ type: visit is a lambda []<class T>() -> Handler. Null: no such type.
#pragma once

#include <cstdint>

#include "ptx/half.h"
#include "ptx/instruction.h"
#include "ptx/types.h"

namespace gpusim::ptx {

template <class Visit>
Handler visit_integer(Type type, Visit visit) {
  switch (type) {
    case Type::u16:
    case Type::b16:
      return visit.template operator()<std::uint16_t>();
    case Type::s16:
      return visit.template operator()<std::int16_t>();
    case Type::u32:
    case Type::b32:
      return visit.template operator()<std::uint32_t>();
    case Type::s32:
      return visit.template operator()<std::int32_t>();
    case Type::u64:
    case Type::b64:
      return visit.template operator()<std::uint64_t>();
    case Type::s64:
      return visit.template operator()<std::int64_t>();
    default:
      return nullptr;
  }
}

// The same and 8 bits, which only loads, stores and conversions have.
template <class Visit>
Handler visit_any_integer(Type type, Visit visit) {
  if (type == Type::u8 || type == Type::b8) return visit.template operator()<std::uint8_t>();
  if (type == Type::s8) return visit.template operator()<std::int8_t>();
  return visit_integer(type, visit);
}

// The unsigned type of the same size, for what does not look at signs.
template <class Visit>
Handler visit_bits(Type type, Visit visit) {
  switch (bytes_of(type)) {
    case 2:
      return visit.template operator()<std::uint16_t>();
    case 4:
      return visit.template operator()<std::uint32_t>();
    case 8:
      return visit.template operator()<std::uint64_t>();
    default:
      return nullptr;
  }
}

template <class Visit>
Handler visit_float(Type type, Visit visit) {
  switch (type) {
    case Type::f32:
      return visit.template operator()<float>();
    case Type::f64:
      return visit.template operator()<double>();
    default:
      return nullptr;
  }
}

}  // namespace gpusim::ptx
