// cvt between integers and f32/f64, and the lowering of all of cvt.
#include "ptx/convert.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ptx/dispatch.h"
#include "ptx/float_modifiers.h"
#include "ptx/float_to_int.h"
#include "ptx/lanes.h"
#include "ptx/lowering.h"

namespace gpusim::ptx {
namespace {

template <class D, class S>
D clamp_to(S value) {
  if (std::cmp_less(value, std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
  if (std::cmp_greater(value, std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
  return static_cast<D>(value);
}

template <class D, class S>
void integer_integer(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<S>(run, i.a);
  if (i.saturate) {
    write_lanes<D>(run, i.d, mask, [&](std::uint32_t lane) { return clamp_to<D>(a[lane]); });
  } else {
    write_lanes<D>(run, i.d, mask, [&](std::uint32_t lane) { return static_cast<D>(a[lane]); });
  }
}

template <class D, class S>
void integer_float(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<S>(run, i.a);
  if (i.rounding == Rounding::nearest && !i.saturate) {
    write_lanes<D>(run, i.d, mask, [&](std::uint32_t lane) { return static_cast<D>(a[lane]); });
    return;
  }
  const ScopedRounding scope(i.rounding);
  write_lanes<D>(run, i.d, mask,
                 [&](std::uint32_t lane) { return saturate_if(opaque(static_cast<D>(opaque(a[lane]))), i.saturate); });
}

template <class D, class S>
void float_integer(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<S>(run, i.a);
  const auto mode = static_cast<Integral>(i.sub);
  write_lanes<D>(run, i.d, mask, [&](std::uint32_t lane) {
    constexpr bool kWide = sizeof(D) == 8 || sizeof(S) == 8;
    return saturating_integer<D, kWide>(to_integral(static_cast<double>(flush_if(a[lane], i.flush)), mode));
  });
}

template <class D, class S>
void float_float(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<S>(run, i.a);
  const auto mode = static_cast<Integral>(i.sub);
  const ScopedRounding scope(i.rounding);
  write_lanes<D>(run, i.d, mask, [&](std::uint32_t lane) {
    S value = flush_if(a[lane], i.flush);
    if (mode != Integral::no) value = static_cast<S>(to_integral(static_cast<double>(value), mode));
    return saturate_if(flush_if(opaque(static_cast<D>(opaque(value))), i.flush), i.saturate);
  });
}

// The plain widening conversion.
void float_to_double(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<float>(run, i.a);
  write_lanes<double>(run, i.d, mask, [&](std::uint32_t lane) { return static_cast<double>(a[lane]); });
}

bool is_half(Type type) {
  return type == Type::f16 || type == Type::bf16;
}
bool is_float(Type type) {
  return type == Type::f32 || type == Type::f64;
}

Handler handler_for(Type to, Type from) {
  if (is_half(from)) return half_to_other(to, from);
  if (is_half(to)) return other_to_half(to, from);
  if (is_float(from)) return is_float(to) ? float_to_float(to, from) : float_to_integer(to, from);
  return is_float(to) ? integer_to_float(to, from) : integer_to_integer(to, from);
}

void emit_extension(Lowering& lowering, Operand to, Type to_type, Operand from, Type from_type) {
  Instruction instruction = lowering.start();
  instruction.handler = integer_to_integer(to_type, from_type);
  instruction.d = to;
  instruction.a = from;
  lowering.emit(instruction);
}

void lower_pair(Lowering& lowering, Type to) {
  Instruction instruction = lowering.start();
  instruction.rounding = lowering.take_rounding();
  instruction.count = lowering.take("relu") ? 2 : 1;
  if (lowering.take_type() != Type::f32) lowering.unsupported("source type of a pair");
  if (instruction.rounding != Rounding::nearest && instruction.rounding != Rounding::zero)
    lowering.unsupported("rounding of a pair");
  lowering.expect_arguments(3, 3);
  instruction.handler = floats_to_pair(to);
  instruction.d = lowering.destination(0, Type::b32);
  instruction.a = lowering.source(1, Type::f32);
  instruction.b = lowering.source(2, Type::f32);
  lowering.emit(instruction);
}

void lower_tf32(Lowering& lowering) {
  const int rounding = lowering.take_one_of({"rna", "rn"});
  if (rounding < 0) lowering.unsupported("tf32 without .rna or .rn");
  if (lowering.take_type() != Type::f32) lowering.unsupported("source type of tf32");
  lowering.expect_arguments(2, 2);
  Instruction instruction = lowering.start();
  instruction.handler = float_to_tf32(rounding == 0);
  instruction.d = lowering.destination(0, Type::b32);
  instruction.a = lowering.source(1, Type::f32);
  lowering.emit(instruction);
}

void lower_cvt(Lowering& lowering) {
  const Type to = lowering.take_type();
  if (to == Type::f16x2 || to == Type::bf16x2) return lower_pair(lowering, to);
  if (to == Type::tf32) return lower_tf32(lowering);
  Instruction instruction = lowering.start();
  const int integral = lowering.take_one_of({"rni", "rzi", "rmi", "rpi"});
  instruction.sub = static_cast<std::uint8_t>(integral + 1);
  bool has_rounding = false;
  instruction.rounding = lowering.take_rounding(&has_rounding);
  instruction.flush = lowering.take("ftz");
  instruction.saturate = lowering.take("sat");
  const Type from = lowering.take_type();
  const bool from_float = is_float(from) || is_half(from);
  if (integral >= 0 && !from_float) lowering.unsupported("integral rounding of an integer");
  if (instruction.flush && from != Type::f32 && to != Type::f32) lowering.unsupported("modifier '.ftz'");
  if (from_float && is_integer(to) && integral < 0) lowering.unsupported("conversion to an integer without rounding");
  if (is_half(to) && lowering.take("relu")) instruction.count = 2;
  instruction.handler = handler_for(to, from);
  if (instruction.handler == nullptr)
    lowering.unsupported(std::string("conversion from .") + name_of(from) + " to ." + name_of(to));
  if (to == Type::f64 && from == Type::f32 && integral < 0 && !instruction.flush && !instruction.saturate)
    instruction.handler = float_to_double;

  lowering.expect_arguments(2, 2);
  const auto [source_row, source_type] = lowering.any_width(lowering.argument(1));
  if (source_row.exists() && bytes_of(source_type) == 8 && bytes_of(from) < 8) {
    instruction.a = lowering.new_register(Type::u32);
    emit_extension(lowering, instruction.a, Type::u32, source_row, Type::u64);
  } else {
    instruction.a = lowering.source(1, from);
  }
  const auto [result_row, result_type] = lowering.any_width(lowering.argument(0));
  if (result_row.exists() && bytes_of(result_type) == 8 && bytes_of(to) < 8) {
    instruction.d = lowering.new_register(Type::u32);
    lowering.emit(instruction);
    emit_extension(lowering, result_row, Type::u64, instruction.d, is_signed(to) ? Type::s32 : Type::u32);
  } else {
    instruction.d = lowering.destination(0, to);
    lowering.emit(instruction);
  }
}

constexpr Family kFamily[] = {{"cvt", lower_cvt}};

}  // namespace

double to_integral(double value, Integral mode) {
  switch (mode) {
    case Integral::no:
      return value;
    case Integral::nearest:
      return std::nearbyint(value);
    case Integral::zero:
      return std::trunc(value);
    case Integral::down:
      return std::floor(value);
    case Integral::up:
      return std::ceil(value);
  }
  return value;
}

Handler integer_to_integer(Type to, Type from) {
  return visit_any_integer(to, [from]<class D>() -> Handler {
    return visit_any_integer(from, []<class S>() -> Handler { return integer_integer<D, S>; });
  });
}

Handler integer_to_float(Type to, Type from) {
  return visit_any_integer(from, [to]<class S>() -> Handler {
    return to == Type::f32 ? integer_float<float, S> : integer_float<double, S>;
  });
}

Handler float_to_integer(Type to, Type from) {
  return visit_any_integer(to, [from]<class D>() -> Handler {
    return from == Type::f32 ? float_integer<D, float> : float_integer<D, double>;
  });
}

Handler float_to_float(Type to, Type from) {
  if (to == Type::f32) return from == Type::f32 ? float_float<float, float> : float_float<float, double>;
  return from == Type::f32 ? float_float<double, float> : float_float<double, double>;
}

std::span<const Family> convert_family() {
  return kFamily;
}

}  // namespace gpusim::ptx
