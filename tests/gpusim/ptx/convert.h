// Handlers of cvt by kind of source and destination. Null: no such conversion.
#pragma once

#include "ptx/instruction.h"
#include "ptx/types.h"

namespace gpusim::ptx {

// How a floating-point value is made integral before it is converted or stored.
enum class Integral : std::uint8_t { no, nearest, zero, down, up };
double to_integral(double value, Integral mode);

// convert.cpp; Instruction::sub is an Integral.
Handler integer_to_integer(Type to, Type from);
Handler integer_to_float(Type to, Type from);
Handler float_to_integer(Type to, Type from);
Handler float_to_float(Type to, Type from);

// convert_half.cpp: f16 or bf16 on either side; `count` 2: .relu; two sources to a pair; f32 to tf32.
Handler half_to_other(Type to, Type from);
Handler other_to_half(Type to, Type from);
Handler floats_to_pair(Type to);
Handler float_to_tf32(bool ties_away);

}  // namespace gpusim::ptx
