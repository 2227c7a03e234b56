// cvt from and to f16, bf16, pairs of them and tf32.
#include <bit>
#include <cmath>
#include <type_traits>

#include "ptx/convert.h"
#include "ptx/float_modifiers.h"
#include "ptx/float_to_int.h"
#include "ptx/lanes.h"

namespace gpusim::ptx {
namespace {

// Any source value is exact in double except 64-bit integers too large for f16 anyway (refused for bf16).
template <class H>
H rounded(double value, Rounding rounding) {
  H result(round_to_odd(value));
  if (rounding == Rounding::nearest || std::isnan(value) || std::isinf(value)) return result;
  const auto exact = static_cast<double>(static_cast<float>(result));
  const bool want_smaller = rounding == Rounding::down || (rounding == Rounding::zero && value > 0);
  const bool want_larger = rounding == Rounding::up || (rounding == Rounding::zero && value < 0);
  const bool is_negative = (result.bits & 0x8000U) != 0;
  if (exact > value && want_smaller) {
    result.bits = (result.bits & 0x7fffU) == 0
                      ? std::uint16_t{0x8001}
                      : static_cast<std::uint16_t>(is_negative ? result.bits + 1 : result.bits - 1);
  } else if (exact < value && want_larger) {
    result.bits = (result.bits & 0x7fffU) == 0
                      ? std::uint16_t{0x0001}
                      : static_cast<std::uint16_t>(is_negative ? result.bits - 1 : result.bits + 1);
  }
  return result;
}

template <class H>
H finish(double value, const Instruction& i) {
  if (i.saturate) value = saturate(value);
  if (i.count == 2 && value < 0) value = 0;  // .relu
  return rounded<H>(value, i.rounding);
}

template <class H>
void from_float(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<float>(run, i.a);
  if (i.rounding == Rounding::nearest && !i.saturate && !i.flush && i.count == 1) {
    write_lanes<H>(run, i.d, mask, [&](std::uint32_t lane) { return H(a[lane]); });
    return;
  }
  write_lanes<H>(run, i.d, mask,
                 [&](std::uint32_t lane) { return finish<H>(static_cast<double>(flush_if(a[lane], i.flush)), i); });
}

template <class H, class S>
void from_other(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<S>(run, i.a);
  write_lanes<H>(run, i.d, mask, [&](std::uint32_t lane) { return finish<H>(static_cast<double>(a[lane]), i); });
}

template <class D, class H>
void to_float(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<H>(run, i.a);
  const auto mode = static_cast<Integral>(i.sub);
  if (mode == Integral::no && !i.saturate && !i.flush) {
    write_lanes<D>(run, i.d, mask, [&](std::uint32_t lane) { return static_cast<D>(static_cast<float>(a[lane])); });
    return;
  }
  write_lanes<D>(run, i.d, mask, [&](std::uint32_t lane) {
    const double value = to_integral(static_cast<double>(static_cast<float>(a[lane])), mode);
    return saturate_if(flush_if(static_cast<D>(value), i.flush), i.saturate);
  });
}

template <class D, class H>
void to_integer(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<H>(run, i.a);
  const auto mode = static_cast<Integral>(i.sub);
  write_lanes<D>(run, i.d, mask, [&](std::uint32_t lane) {
    return saturating_integer<D, sizeof(D) == 8>(to_integral(static_cast<double>(static_cast<float>(a[lane])), mode));
  });
}

template <class To, class From>
void half_to_half(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<From>(run, i.a);
  const auto mode = static_cast<Integral>(i.sub);
  write_lanes<To>(run, i.d, mask, [&](std::uint32_t lane) {
    return finish<To>(to_integral(static_cast<double>(static_cast<float>(a[lane])), mode), i);
  });
}

// d = {high a, low b}
template <class H>
void to_pair(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<float>(run, i.a);
  const auto b = lanes_of<float>(run, i.b);
  write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::uint32_t high = finish<H>(static_cast<double>(a[lane]), i).bits;
    const std::uint32_t low = finish<H>(static_cast<double>(b[lane]), i).bits;
    return high << 16 | low;
  });
}

// 10 bits of fraction remain; the lower 13 bits become zero.
template <bool ties_away>
void to_tf32(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<std::uint32_t>(run, i.a);
  write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::uint32_t bits = a[lane];
    if ((bits & 0x7f800000U) == 0x7f800000U) return bits;  // infinity or NaN
    const std::uint32_t half = ties_away ? 0x1000U : 0xfffU + (bits >> 13 & 1U);
    return (bits + half) & ~0x1fffU;
  });
}

template <class H>
Handler from_half(Type to) {
  switch (to) {
    case Type::f16:
      return half_to_half<Half, H>;
    case Type::bf16:
      return half_to_half<Bfloat, H>;
    case Type::f32:
      return to_float<float, H>;
    case Type::f64:
      return to_float<double, H>;
    case Type::u8:
      return to_integer<std::uint8_t, H>;
    case Type::s8:
      return to_integer<std::int8_t, H>;
    case Type::u16:
      return to_integer<std::uint16_t, H>;
    case Type::s16:
      return to_integer<std::int16_t, H>;
    case Type::u32:
      return to_integer<std::uint32_t, H>;
    case Type::s32:
      return to_integer<std::int32_t, H>;
    case Type::u64:
      return to_integer<std::uint64_t, H>;
    case Type::s64:
      return to_integer<std::int64_t, H>;
    default:
      return nullptr;
  }
}

template <class H>
Handler to_half(Type from) {
  switch (from) {
    case Type::f32:
      return from_float<H>;
    case Type::f64:
      return from_other<H, double>;
    case Type::u8:
      return from_other<H, std::uint8_t>;
    case Type::s8:
      return from_other<H, std::int8_t>;
    case Type::u16:
      return from_other<H, std::uint16_t>;
    case Type::s16:
      return from_other<H, std::int16_t>;
    case Type::u32:
      return from_other<H, std::uint32_t>;
    case Type::s32:
      return from_other<H, std::int32_t>;
    case Type::u64:
      return std::is_same_v<H, Half> ? from_other<H, std::uint64_t> : nullptr;
    case Type::s64:
      return std::is_same_v<H, Half> ? from_other<H, std::int64_t> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

Handler half_to_other(Type to, Type from) {
  return from == Type::f16 ? from_half<Half>(to) : from_half<Bfloat>(to);
}

Handler other_to_half(Type to, Type from) {
  return to == Type::f16 ? to_half<Half>(from) : to_half<Bfloat>(from);
}

Handler floats_to_pair(Type to) {
  return to == Type::f16x2 ? to_pair<Half> : to_pair<Bfloat>;
}

Handler float_to_tf32(bool ties_away) {
  return ties_away ? to_tf32<true> : to_tf32<false>;
}

}  // namespace gpusim::ptx
