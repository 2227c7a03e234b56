// Handlers of two- and three-operand arithmetic, by number format. Each file serves one format; arithmetic.cpp lowers.
#pragma once

#include "ptx/instruction.h"
#include "ptx/types.h"

namespace gpusim::ptx {

enum class Binary { add, subtract, multiply, multiply_high, divide, remainder, minimum, maximum };
enum class Unary { negate, absolute };

// integer_arithmetic.cpp. `high`: the upper half of the product.
Handler integer_binary(Binary operation, Type type);
Handler integer_saturating(Binary operation);  // s32
Handler integer_unary(Unary operation, Type type);
Handler integer_multiply_add(Type type, bool high);
Handler multiply_wide(Type type, bool with_addend);
Handler multiply_24(Type type, bool high, bool with_addend);
Handler sum_of_differences(Type type);

// float_arithmetic.cpp. Without `modified` neither .ftz nor .sat nor a rounding other than to nearest is honoured.
Handler float_binary(Binary operation, Type type, bool modified);
Handler float_unary(Unary operation, Type type);
Handler float_multiply_add(Type type, bool modified);
Handler float_propagating(Binary operation);  // min.NaN, max.NaN of f32

// half_arithmetic.cpp: f16, bf16 and the pairs of them.
Handler half_binary(Binary operation, Type type);
Handler half_propagating(Binary operation, Type type);  // min.NaN, max.NaN
Handler half_unary(Unary operation, Type type);
Handler half_multiply_add(Type type);  // `sub` 1: .relu

}  // namespace gpusim::ptx
