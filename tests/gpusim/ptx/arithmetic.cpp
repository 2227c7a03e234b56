// Lowering of add, sub, mul, mad, fma, div, rem, min, max, neg, abs and sad for all number formats.
#include "ptx/arithmetic.h"

#include "ptx/lowering.h"

namespace gpusim::ptx {

void lower_carry_arithmetic(Lowering& lowering);  // carry.cpp

namespace {

bool is_half(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f16x2 || type == Type::bf16x2;
}
bool is_float(Type type) {
  return type == Type::f32 || type == Type::f64;
}

// Modifiers of floating-point arithmetic; true when there is any that the plain handlers do not honour.
bool take_float_modifiers(Lowering& lowering, Type type, Instruction& instruction) {
  instruction.rounding = lowering.take_rounding();
  instruction.flush = type == Type::f32 && lowering.take("ftz");
  instruction.saturate = type == Type::f32 && lowering.take("sat");
  return instruction.rounding != Rounding::nearest || instruction.flush || instruction.saturate;
}

// f16 arithmetic has .rn only; .ftz is refused (the lanes do not flush 16-bit subnormals).
void take_half_modifiers(Lowering& lowering, Instruction& instruction) {
  lowering.take("rn");
  instruction.saturate = lowering.take("sat");
}

void emit_binary(Lowering& lowering, Instruction instruction, Type type) {
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
  lowering.expect_arguments(3, 3);
  instruction.d = lowering.destination(0, type);
  instruction.a = lowering.source(1, type);
  instruction.b = lowering.source(2, type);
  lowering.emit(instruction);
}

void lower_add_or_subtract(Lowering& lowering) {
  const Binary operation = lowering.opcode() == "add" ? Binary::add : Binary::subtract;
  if (lowering.take("cc")) return lower_carry_arithmetic(lowering);
  const Type type = lowering.take_type();
  Instruction instruction = lowering.start();
  if (is_half(type)) {
    take_half_modifiers(lowering, instruction);
    instruction.handler = half_binary(operation, type);
  } else if (is_float(type)) {
    const bool modified = take_float_modifiers(lowering, type, instruction);
    instruction.handler = float_binary(operation, type, modified);
  } else if (type == Type::s32 && lowering.take("sat")) {
    instruction.handler = integer_saturating(operation);
  } else {
    instruction.handler = integer_binary(operation, type);
  }
  emit_binary(lowering, instruction, type);
}

void lower_multiply_wide(Lowering& lowering, bool with_addend) {
  const Type type = lowering.take_type();
  const Type wide = type == Type::u16   ? Type::u32
                    : type == Type::s16 ? Type::s32
                    : type == Type::u32 ? Type::u64
                                        : Type::s64;
  Instruction instruction = lowering.start();
  instruction.handler = multiply_wide(type, with_addend);
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
  lowering.expect_arguments(with_addend ? 4 : 3, with_addend ? 4 : 3);
  instruction.d = lowering.destination(0, wide);
  instruction.a = lowering.source(1, type);
  instruction.b = lowering.source(2, type);
  if (with_addend) instruction.c = lowering.source(3, wide);
  lowering.emit(instruction);
}

void lower_multiply(Lowering& lowering) {
  if (lowering.take("wide")) return lower_multiply_wide(lowering, false);
  const Type type = lowering.take_type();
  Instruction instruction = lowering.start();
  if (is_half(type)) {
    take_half_modifiers(lowering, instruction);
    instruction.handler = half_binary(Binary::multiply, type);
  } else if (is_float(type)) {
    const bool modified = take_float_modifiers(lowering, type, instruction);
    instruction.handler = float_binary(Binary::multiply, type, modified);
  } else if (lowering.take("hi")) {
    instruction.handler = integer_binary(Binary::multiply_high, type);
  } else {
    if (!lowering.take("lo")) lowering.unsupported("mul without .lo, .hi or .wide");
    instruction.handler = integer_binary(Binary::multiply, type);
  }
  emit_binary(lowering, instruction, type);
}

void lower_multiply_add(Lowering& lowering) {
  if (lowering.take("cc")) return lower_carry_arithmetic(lowering);
  if (lowering.take("wide")) return lower_multiply_wide(lowering, true);
  const Type type = lowering.take_type();
  Instruction instruction = lowering.start();
  if (is_half(type)) {
    take_half_modifiers(lowering, instruction);
    instruction.sub = lowering.take("relu") ? 1 : 0;
    instruction.handler = half_multiply_add(type);
  } else if (is_float(type)) {
    const bool modified = take_float_modifiers(lowering, type, instruction);
    instruction.handler = float_multiply_add(type, modified);
  } else {
    const bool high = lowering.take("hi");
    if (!high && !lowering.take("lo")) lowering.unsupported("mad without .lo, .hi or .wide");
    instruction.handler = integer_multiply_add(type, high);
  }
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
  lowering.expect_arguments(4, 4);
  instruction.d = lowering.destination(0, type);
  instruction.a = lowering.source(1, type);
  instruction.b = lowering.source(2, type);
  instruction.c = lowering.source(3, type);
  lowering.emit(instruction);
}

void lower_24_bits(Lowering& lowering) {
  const bool with_addend = lowering.opcode() == "mad24";
  const bool high = lowering.take("hi");
  if (!high && !lowering.take("lo")) lowering.unsupported("24-bit product without .lo or .hi");
  const Type type = lowering.take_type();
  Instruction instruction = lowering.start();
  instruction.handler = multiply_24(type, high, with_addend);
  if (with_addend) instruction.c = lowering.source(3, type);
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
  lowering.expect_arguments(with_addend ? 4 : 3, with_addend ? 4 : 3);
  instruction.d = lowering.destination(0, type);
  instruction.a = lowering.source(1, type);
  instruction.b = lowering.source(2, type);
  lowering.emit(instruction);
}

void lower_divide(Lowering& lowering) {
  const Type type = lowering.take_type();
  Instruction instruction = lowering.start();
  if (is_float(type)) {
    // .approx and .full may be off by a few units in the last place on a GPU; here they are exact.
    lowering.take_one_of({"approx", "full"});
    const bool modified = take_float_modifiers(lowering, type, instruction);
    instruction.handler = float_binary(Binary::divide, type, modified);
  } else {
    instruction.handler = integer_binary(Binary::divide, type);
  }
  emit_binary(lowering, instruction, type);
}

void lower_remainder(Lowering& lowering) {
  const Type type = lowering.take_type();
  Instruction instruction = lowering.start();
  instruction.handler = integer_binary(Binary::remainder, type);
  emit_binary(lowering, instruction, type);
}

void lower_extremum(Lowering& lowering) {
  const Binary operation = lowering.opcode() == "min" ? Binary::minimum : Binary::maximum;
  const Type type = lowering.take_type();
  Instruction instruction = lowering.start();
  const bool propagates = lowering.take("NaN");
  if (is_half(type)) {
    instruction.handler = propagates ? half_propagating(operation, type) : half_binary(operation, type);
  } else if (is_float(type)) {
    instruction.flush = type == Type::f32 && lowering.take("ftz");
    if (propagates && type != Type::f32) lowering.unsupported("modifier '.NaN'");
    instruction.handler = propagates ? float_propagating(operation) : float_binary(operation, type, instruction.flush);
  } else {
    if (propagates) lowering.unsupported("modifier '.NaN'");
    instruction.handler = integer_binary(operation, type);
  }
  emit_binary(lowering, instruction, type);
}

void lower_unary(Lowering& lowering) {
  const Unary operation = lowering.opcode() == "neg" ? Unary::negate : Unary::absolute;
  const Type type = lowering.take_type();
  Instruction instruction = lowering.start();
  if (is_half(type)) {
    instruction.handler = half_unary(operation, type);
  } else if (is_float(type)) {
    instruction.flush = type == Type::f32 && lowering.take("ftz");
    instruction.handler = float_unary(operation, type);
  } else {
    instruction.handler = integer_unary(operation, type);
  }
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
  lowering.expect_arguments(2, 2);
  instruction.d = lowering.destination(0, type);
  instruction.a = lowering.source(1, type);
  lowering.emit(instruction);
}

void lower_sum_of_differences(Lowering& lowering) {
  const Type type = lowering.take_type();
  lowering.expect_arguments(4, 4);
  Instruction instruction = lowering.start();
  instruction.handler = sum_of_differences(type);
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
  instruction.d = lowering.destination(0, type);
  instruction.a = lowering.source(1, type);
  instruction.b = lowering.source(2, type);
  instruction.c = lowering.source(3, type);
  lowering.emit(instruction);
}

constexpr Family kFamily[] = {
    {"add", lower_add_or_subtract}, {"sub", lower_add_or_subtract},
    {"mul", lower_multiply},        {"mad", lower_multiply_add},
    {"fma", lower_multiply_add},    {"mul24", lower_24_bits},
    {"mad24", lower_24_bits},       {"div", lower_divide},
    {"rem", lower_remainder},       {"min", lower_extremum},
    {"max", lower_extremum},        {"neg", lower_unary},
    {"abs", lower_unary},           {"sad", lower_sum_of_differences},
};

}  // namespace

std::span<const Family> arithmetic_family() {
  return kFamily;
}

}  // namespace gpusim::ptx
