// Integer arithmetic. Everything wraps; dividing by zero gives all ones, as on the GPU.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "ptx/arithmetic.h"
#include "ptx/dispatch.h"
#include "ptx/lanes.h"

namespace gpusim::ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

// Wide enough that 16-bit operands are not multiplied as (signed) int.
template <class T>
using Working = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
T multiply_high(T a, T b) {
  __extension__ using Wide =
      std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
                         std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;
  return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (8 * sizeof(T)));
}

template <class T, Binary operation>
T compute(T a, T b) {
  using W = Working<T>;
  if constexpr (operation == Binary::add) return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  if constexpr (operation == Binary::subtract) return static_cast<T>(static_cast<W>(a) - static_cast<W>(b));
  if constexpr (operation == Binary::multiply) return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  if constexpr (operation == Binary::multiply_high) return multiply_high(a, b);
  if constexpr (operation == Binary::minimum) return std::min(a, b);
  if constexpr (operation == Binary::maximum) return std::max(a, b);
  if constexpr (operation == Binary::divide) {
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>)
      if (b == T{-1}) return static_cast<T>(W{0} - static_cast<W>(a));
    return static_cast<T>(a / b);
  }
  if constexpr (operation == Binary::remainder) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == T{-1}) return 0;
    return static_cast<T>(a % b);
  }
}

template <class T, Binary operation>
void binary(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) { return compute<T, operation>(a[lane], b[lane]); });
}

template <Binary operation>
void saturating(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<std::int32_t>(run, i.a);
  const auto b = lanes_of<std::int32_t>(run, i.b);
  write_lanes<std::int32_t>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::int64_t x = a[lane];
    const std::int64_t y = b[lane];
    const std::int64_t exact = operation == Binary::add ? x + y : x - y;
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(exact, std::numeric_limits<std::int32_t>::min(),
                                                              std::numeric_limits<std::int32_t>::max()));
  });
}

template <class T, Unary operation>
void unary(Execution& run, const Instruction& i, std::uint32_t mask) {
  using W = Working<T>;
  const auto a = lanes_of<T>(run, i.a);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
    const T x = a[lane];
    return operation == Unary::absolute && !(x < 0) ? x : static_cast<T>(W{0} - static_cast<W>(x));
  });
}

template <class T, bool high>
void multiply_add(Execution& run, const Instruction& i, std::uint32_t mask) {
  using W = Working<T>;
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  const auto c = lanes_of<T>(run, i.c);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
    const T product = compute < T, high ? Binary::multiply_high : Binary::multiply > (a[lane], b[lane]);
    return static_cast<T>(static_cast<W>(product) + static_cast<W>(c[lane]));
  });
}

template <class T, class Wide, bool with_addend>
void wide(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  if constexpr (with_addend) {
    const auto c = lanes_of<Wide>(run, i.c);
    write_lanes<Wide>(run, i.d, mask, [&](std::uint32_t lane) {
      return static_cast<Wide>(static_cast<Unsigned<Wide>>(static_cast<Wide>(a[lane]) * static_cast<Wide>(b[lane])) +
                               static_cast<Unsigned<Wide>>(c[lane]));
    });
  } else {
    write_lanes<Wide>(run, i.d, mask, [&](std::uint32_t lane) {
      return static_cast<Wide>(static_cast<Wide>(a[lane]) * static_cast<Wide>(b[lane]));
    });
  }
}

template <class T, bool high, bool with_addend>
void multiply_24_bits(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  const auto low_24 = [](T value) {  // extended by the sign of T
    const auto bits = static_cast<T>(static_cast<std::uint32_t>(value) << 8);
    return static_cast<std::int64_t>(static_cast<T>(bits >> 8));
  };
  write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::int64_t product = low_24(a[lane]) * low_24(b[lane]);
    std::uint32_t result = static_cast<std::uint32_t>(high ? product >> 16 : product);
    if constexpr (with_addend) result += lanes_of<std::uint32_t>(run, i.c)[lane];
    return result;
  });
}

template <class T>
void sum_differences(Execution& run, const Instruction& i, std::uint32_t mask) {
  using W = Working<T>;
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  const auto c = lanes_of<T>(run, i.c);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
    const T x = a[lane];
    const T y = b[lane];
    const W difference = x < y ? static_cast<W>(y) - static_cast<W>(x) : static_cast<W>(x) - static_cast<W>(y);
    return static_cast<T>(difference + static_cast<W>(c[lane]));
  });
}

}  // namespace

Handler integer_binary(Binary operation, Type type) {
  return visit_integer(type, [operation]<class T>() -> Handler {
    switch (operation) {
      case Binary::add:
        return binary<T, Binary::add>;
      case Binary::subtract:
        return binary<T, Binary::subtract>;
      case Binary::multiply:
        return binary<T, Binary::multiply>;
      case Binary::multiply_high:
        return binary<T, Binary::multiply_high>;
      case Binary::divide:
        return binary<T, Binary::divide>;
      case Binary::remainder:
        return binary<T, Binary::remainder>;
      case Binary::minimum:
        return binary<T, Binary::minimum>;
      case Binary::maximum:
        return binary<T, Binary::maximum>;
    }
    return nullptr;
  });
}

Handler integer_saturating(Binary operation) {
  return operation == Binary::add ? saturating<Binary::add> : saturating<Binary::subtract>;
}

Handler integer_unary(Unary operation, Type type) {
  return visit_integer(type, [operation]<class T>() -> Handler {
    return operation == Unary::negate ? unary<T, Unary::negate> : unary<T, Unary::absolute>;
  });
}

Handler integer_multiply_add(Type type, bool high) {
  return visit_integer(type,
                       [high]<class T>() -> Handler { return high ? multiply_add<T, true> : multiply_add<T, false>; });
}

Handler multiply_wide(Type type, bool with_addend) {
  switch (type) {
    case Type::u16:
      return with_addend ? wide<std::uint16_t, std::uint32_t, true> : wide<std::uint16_t, std::uint32_t, false>;
    case Type::s16:
      return with_addend ? wide<std::int16_t, std::int32_t, true> : wide<std::int16_t, std::int32_t, false>;
    case Type::u32:
      return with_addend ? wide<std::uint32_t, std::uint64_t, true> : wide<std::uint32_t, std::uint64_t, false>;
    case Type::s32:
      return with_addend ? wide<std::int32_t, std::int64_t, true> : wide<std::int32_t, std::int64_t, false>;
    default:
      return nullptr;
  }
}

Handler multiply_24(Type type, bool high, bool with_addend) {
  if (type == Type::s32) {
    if (with_addend)
      return high ? multiply_24_bits<std::int32_t, true, true> : multiply_24_bits<std::int32_t, false, true>;
    return high ? multiply_24_bits<std::int32_t, true, false> : multiply_24_bits<std::int32_t, false, false>;
  }
  if (type != Type::u32) return nullptr;
  if (with_addend)
    return high ? multiply_24_bits<std::uint32_t, true, true> : multiply_24_bits<std::uint32_t, false, true>;
  return high ? multiply_24_bits<std::uint32_t, true, false> : multiply_24_bits<std::uint32_t, false, false>;
}

Handler sum_of_differences(Type type) {
  return visit_integer(type, []<class T>() -> Handler { return sum_differences<T>; });
}

}  // namespace gpusim::ptx
