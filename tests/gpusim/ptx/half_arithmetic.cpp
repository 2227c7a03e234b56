// f16 and bf16 arithmetic, single and in pairs. Sums and products of two are exact enough in float that rounding once
// more to 16 bits gives the correctly rounded result; the fused multiply-add needs half.h.
#include <cmath>

#include "ptx/arithmetic.h"
#include "ptx/float_modifiers.h"
#include "ptx/lanes.h"

namespace gpusim::ptx {
namespace {

template <class H>
constexpr std::uint16_t kCanonicalNan = 0x7fff;

template <class H>
H from_bits(std::uint16_t bits) {
  H value;
  value.bits = bits;
  return value;
}

template <class H>
bool is_nan(H value) {
  return std::isnan(static_cast<float>(value));
}

template <class H, Binary operation>
H compute(H a, H b, const Instruction& i) {
  const auto x = static_cast<float>(a);
  const auto y = static_cast<float>(b);
  if constexpr (operation == Binary::minimum || operation == Binary::maximum) {
    if (is_nan(a) && is_nan(b)) return from_bits<H>(kCanonicalNan<H>);
    if (is_nan(a)) return b;
    if (is_nan(b)) return a;
    const bool first =
        operation == Binary::minimum ? x < y || (x == y && std::signbit(x)) : x > y || (x == y && !std::signbit(x));
    return first ? a : b;
  } else {
    const float result = operation == Binary::add ? x + y : operation == Binary::subtract ? x - y : x * y;
    return H(saturate_if(result, i.saturate));
  }
}

// One or two values in a 32-bit slot.
template <class H, bool pair, class Compute>
void for_values(Execution& run, Operand d, std::uint32_t mask, Compute compute_value) {
  write_lanes<std::uint32_t>(run, d, mask, [&](std::uint32_t lane) {
    const std::uint32_t low = compute_value(lane, 0U).bits;
    if constexpr (!pair) return low;
    return low | static_cast<std::uint32_t>(compute_value(lane, 16U).bits) << 16;
  });
}

template <class H>
struct Values {
  const std::uint32_t* slots;
  H at(std::uint32_t lane, unsigned shift) const {
    return from_bits<H>(static_cast<std::uint16_t>(slots[lane] >> shift));
  }
};
template <class H>
Values<H> values_of(Execution& run, Operand operand) {
  return {slots_of<std::uint32_t>(run, operand)};
}

template <class H, bool pair, Binary operation>
void binary(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = values_of<H>(run, i.a);
  const auto b = values_of<H>(run, i.b);
  for_values<H, pair>(run, i.d, mask, [&](std::uint32_t lane, unsigned shift) {
    return compute<H, operation>(a.at(lane, shift), b.at(lane, shift), i);
  });
}

template <class H, bool pair, Binary operation>
void propagating(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = values_of<H>(run, i.a);
  const auto b = values_of<H>(run, i.b);
  for_values<H, pair>(run, i.d, mask, [&](std::uint32_t lane, unsigned shift) {
    const H x = a.at(lane, shift);
    const H y = b.at(lane, shift);
    return is_nan(x) || is_nan(y) ? from_bits<H>(kCanonicalNan<H>) : compute<H, operation>(x, y, i);
  });
}

template <class H, bool pair, Unary operation>
void unary(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = values_of<H>(run, i.a);
  for_values<H, pair>(run, i.d, mask, [&](std::uint32_t lane, unsigned shift) {
    const std::uint16_t bits = a.at(lane, shift).bits;
    return from_bits<H>(static_cast<std::uint16_t>(operation == Unary::negate ? bits ^ 0x8000U : bits & 0x7fffU));
  });
}

template <class H, bool pair>
void multiply_add(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = values_of<H>(run, i.a);
  const auto b = values_of<H>(run, i.b);
  const auto c = values_of<H>(run, i.c);
  for_values<H, pair>(run, i.d, mask, [&](std::uint32_t lane, unsigned shift) {
    H result = fused_multiply_add(a.at(lane, shift), b.at(lane, shift), c.at(lane, shift));
    if (i.saturate) result = H(saturate(static_cast<float>(result)));
    if (i.sub == 1 && is_nan(result)) return from_bits<H>(kCanonicalNan<H>);
    if (i.sub == 1 && static_cast<float>(result) < 0) return H();  // .relu
    return result;
  });
}

template <class Visit>
Handler visit_half(Type type, Visit visit) {
  switch (type) {
    case Type::f16:
      return visit.template operator()<Half, false>();
    case Type::f16x2:
      return visit.template operator()<Half, true>();
    case Type::bf16:
      return visit.template operator()<Bfloat, false>();
    case Type::bf16x2:
      return visit.template operator()<Bfloat, true>();
    default:
      return nullptr;
  }
}

}  // namespace

Handler half_binary(Binary operation, Type type) {
  return visit_half(type, [operation]<class H, bool pair>() -> Handler {
    switch (operation) {
      case Binary::add:
        return binary<H, pair, Binary::add>;
      case Binary::subtract:
        return binary<H, pair, Binary::subtract>;
      case Binary::multiply:
        return binary<H, pair, Binary::multiply>;
      case Binary::minimum:
        return binary<H, pair, Binary::minimum>;
      case Binary::maximum:
        return binary<H, pair, Binary::maximum>;
      default:
        return nullptr;
    }
  });
}

Handler half_propagating(Binary operation, Type type) {
  return visit_half(type, [operation]<class H, bool pair>() -> Handler {
    return operation == Binary::minimum ? propagating<H, pair, Binary::minimum> : propagating<H, pair, Binary::maximum>;
  });
}

Handler half_unary(Unary operation, Type type) {
  return visit_half(type, [operation]<class H, bool pair>() -> Handler {
    return operation == Unary::negate ? unary<H, pair, Unary::negate> : unary<H, pair, Unary::absolute>;
  });
}

Handler half_multiply_add(Type type) {
  return visit_half(type, []<class H, bool pair>() -> Handler { return multiply_add<H, pair>; });
}

}  // namespace gpusim::ptx
