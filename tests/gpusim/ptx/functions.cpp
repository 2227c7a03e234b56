// rcp, sqrt, rsqrt, sin, cos, ex2, lg2, tanh and copysign. The .approx forms of a GPU are off by a few units in the
// last place; here they are as good as the host's math library, so results are close but not equal to the bit.
#include <cmath>

#include "ptx/dispatch.h"
#include "ptx/float_modifiers.h"
#include "ptx/lanes.h"
#include "ptx/lowering.h"

namespace gpusim::ptx {
namespace {

enum class Function { reciprocal, root, reciprocal_root, sine, cosine, exponential, logarithm, hyperbolic_tangent };

template <Function function, class T>
T compute(T x) {
  if constexpr (function == Function::reciprocal) return T{1} / x;
  if constexpr (function == Function::root) return std::sqrt(x);
  if constexpr (function == Function::reciprocal_root) return static_cast<T>(1 / std::sqrt(static_cast<double>(x)));
  if constexpr (function == Function::sine) return std::sin(x);
  if constexpr (function == Function::cosine) return std::cos(x);
  if constexpr (function == Function::exponential) return std::exp2(x);
  if constexpr (function == Function::logarithm) return std::log2(x);
  if constexpr (function == Function::hyperbolic_tangent) return std::tanh(x);
}

template <class T, Function function>
void execute(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  if (i.rounding == Rounding::nearest) {
    write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
      return flush_if(compute<function>(flush_if(a[lane], i.flush)), i.flush);
    });
    return;
  }
  const ScopedRounding scope(i.rounding);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
    return flush_if(opaque(compute<function>(opaque(flush_if(a[lane], i.flush)))), i.flush);
  });
}

template <class H, bool pair, Function function>
void execute_half(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<std::uint32_t>(run, i.a);
  // .ftz exists for bf16 only, whose subnormals are those of float.
  const auto one = [&i](std::uint32_t bits) {
    H value;
    value.bits = static_cast<std::uint16_t>(bits);
    const float x = flush_if(static_cast<float>(value), i.flush);
    return std::uint32_t{H(flush_if(compute<function>(x), i.flush)).bits};
  };
  write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t lane) {
    if constexpr (!pair) return one(a[lane]);
    return one(a[lane]) | one(a[lane] >> 16) << 16;
  });
}

template <Function function>
Handler half_handler(Type type) {
  switch (type) {
    case Type::f16:
      return execute_half<Half, false, function>;
    case Type::f16x2:
      return execute_half<Half, true, function>;
    case Type::bf16:
      return execute_half<Bfloat, false, function>;
    case Type::bf16x2:
      return execute_half<Bfloat, true, function>;
    default:
      return nullptr;
  }
}

template <Function function>
void lower(Lowering& lowering) {
  const Type type = lowering.take_type();
  Instruction instruction = lowering.start();
  const bool approximate = lowering.take("approx");
  bool has_rounding = false;
  instruction.rounding = lowering.take_rounding(&has_rounding);
  if (approximate == has_rounding) lowering.unsupported("neither .approx nor a rounding");
  instruction.flush = lowering.take("ftz");
  constexpr bool kHasDouble =
      function == Function::reciprocal || function == Function::root || function == Function::reciprocal_root;
  constexpr bool kHasHalf = function == Function::exponential || function == Function::hyperbolic_tangent;
  if (type == Type::f32) instruction.handler = execute<float, function>;
  if constexpr (kHasDouble)
    if (type == Type::f64) instruction.handler = execute<double, function>;
  if constexpr (kHasHalf)
    if (instruction.handler == nullptr) instruction.handler = half_handler<function>(type);
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
  if (instruction.flush && (type == Type::f16 || type == Type::f16x2)) lowering.unsupported("modifier '.ftz'");
  lowering.expect_arguments(2, 2);
  instruction.d = lowering.destination(0, type);
  instruction.a = lowering.source(1, type);
  lowering.emit(instruction);
}

template <class T>
void copy_sign(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) { return std::copysign(b[lane], a[lane]); });
}

void lower_copysign(Lowering& lowering) {
  const Type type = lowering.take_type();
  Instruction instruction = lowering.start();
  instruction.handler = visit_float(type, []<class T>() -> Handler { return copy_sign<T>; });
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
  lowering.expect_arguments(3, 3);
  instruction.d = lowering.destination(0, type);
  instruction.a = lowering.source(1, type);
  instruction.b = lowering.source(2, type);
  lowering.emit(instruction);
}

constexpr Family kFamily[] = {
    {"rcp", lower<Function::reciprocal>},
    {"sqrt", lower<Function::root>},
    {"rsqrt", lower<Function::reciprocal_root>},
    {"sin", lower<Function::sine>},
    {"cos", lower<Function::cosine>},
    {"ex2", lower<Function::exponential>},
    {"lg2", lower<Function::logarithm>},
    {"tanh", lower<Function::hyperbolic_tangent>},
    {"copysign", lower_copysign},
};

}  // namespace

std::span<const Family> function_family() {
  return kFamily;
}

}  // namespace gpusim::ptx
