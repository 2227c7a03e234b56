// f32 and f64 arithmetic. The plain handlers round to nearest and keep subnormals, which is what nvcc emits by default.
#include <cmath>

#include "ptx/arithmetic.h"
#include "ptx/dispatch.h"
#include "ptx/float_modifiers.h"
#include "ptx/lanes.h"

namespace gpusim::ptx {
namespace {

// A NaN loses against a number; -0 is less than +0.
template <class T>
T minimum(T a, T b) {
  const T smaller = a < b || (a == b && std::signbit(a)) ? a : b;
  return a != a ? b : b != b ? a : smaller;
}
template <class T>
T maximum(T a, T b) {
  const T larger = a > b || (a == b && !std::signbit(a)) ? a : b;
  return a != a ? b : b != b ? a : larger;
}

template <class T, Binary operation>
T compute(T a, T b) {
  if constexpr (operation == Binary::add) return a + b;
  if constexpr (operation == Binary::subtract) return a - b;
  if constexpr (operation == Binary::multiply) return a * b;
  if constexpr (operation == Binary::divide) return a / b;
  if constexpr (operation == Binary::minimum) return minimum(a, b);
  if constexpr (operation == Binary::maximum) return maximum(a, b);
}

template <class T, Binary operation>
void plain(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) { return compute<T, operation>(a[lane], b[lane]); });
}

template <class T, Binary operation>
void modified(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  const ScopedRounding scope(i.rounding);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
    const T x = opaque(flush_if(a[lane], i.flush));
    const T y = opaque(flush_if(b[lane], i.flush));
    return saturate_if(flush_if(opaque(compute<T, operation>(x, y)), i.flush), i.saturate);
  });
}

template <class T>
void multiply_add(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  const auto c = lanes_of<T>(run, i.c);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) { return std::fma(a[lane], b[lane], c[lane]); });
}

template <class T>
void modified_multiply_add(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  const auto c = lanes_of<T>(run, i.c);
  const ScopedRounding scope(i.rounding);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
    const T x = opaque(flush_if(a[lane], i.flush));
    const T y = opaque(flush_if(b[lane], i.flush));
    const T z = opaque(flush_if(c[lane], i.flush));
    return saturate_if(flush_if(opaque(std::fma(x, y, z)), i.flush), i.saturate);
  });
}

template <Binary operation>
void propagating(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<float>(run, i.a);
  const auto b = lanes_of<float>(run, i.b);
  write_lanes<float>(run, i.d, mask, [&](std::uint32_t lane) {
    const float x = flush_if(a[lane], i.flush);
    const float y = flush_if(b[lane], i.flush);
    return x != x || y != y ? std::bit_cast<float>(0x7fffffffU) : compute<float, operation>(x, y);
  });
}

template <class T, Unary operation>
void unary(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
    const T x = flush_if(a[lane], i.flush);
    return operation == Unary::negate ? -x : std::fabs(x);
  });
}

}  // namespace

Handler float_binary(Binary operation, Type type, bool is_modified) {
  return visit_float(type, [=]<class T>() -> Handler {
    switch (operation) {
      case Binary::add:
        return is_modified ? modified<T, Binary::add> : plain<T, Binary::add>;
      case Binary::subtract:
        return is_modified ? modified<T, Binary::subtract> : plain<T, Binary::subtract>;
      case Binary::multiply:
        return is_modified ? modified<T, Binary::multiply> : plain<T, Binary::multiply>;
      case Binary::divide:
        return is_modified ? modified<T, Binary::divide> : plain<T, Binary::divide>;
      case Binary::minimum:
        return is_modified ? modified<T, Binary::minimum> : plain<T, Binary::minimum>;
      case Binary::maximum:
        return is_modified ? modified<T, Binary::maximum> : plain<T, Binary::maximum>;
      default:
        return nullptr;
    }
  });
}

Handler float_unary(Unary operation, Type type) {
  return visit_float(type, [=]<class T>() -> Handler {
    return operation == Unary::negate ? unary<T, Unary::negate> : unary<T, Unary::absolute>;
  });
}

Handler float_multiply_add(Type type, bool is_modified) {
  return visit_float(type,
                     [=]<class T>() -> Handler { return is_modified ? modified_multiply_add<T> : multiply_add<T>; });
}

Handler float_propagating(Binary operation) {
  return operation == Binary::minimum ? propagating<Binary::minimum> : propagating<Binary::maximum>;
}

}  // namespace gpusim::ptx
