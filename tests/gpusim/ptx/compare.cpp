// setp, set, selp, slct and testp.
#include <array>
#include <cmath>
#include <type_traits>

#include "ptx/dispatch.h"
#include "ptx/float_modifiers.h"
#include "ptx/lanes.h"
#include "ptx/lowering.h"

namespace gpusim::ptx {
namespace {

enum class Comparison : std::uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };
enum class Combine : std::uint8_t { none, conjunction, disjunction, exclusive };
enum class Format : std::uint8_t { mask, one_f32, one_f16, one_bf16 };  // what `set` writes for true

struct ComparisonName {
  std::string_view name;
  Comparison comparison;
};
constexpr std::array kComparisons{
    ComparisonName{"eq", Comparison::eq},   ComparisonName{"ne", Comparison::ne},
    ComparisonName{"lt", Comparison::lt},   ComparisonName{"le", Comparison::le},
    ComparisonName{"gt", Comparison::gt},   ComparisonName{"ge", Comparison::ge},
    ComparisonName{"lo", Comparison::lt},   ComparisonName{"ls", Comparison::le},
    ComparisonName{"hi", Comparison::gt},   ComparisonName{"hs", Comparison::ge},
    ComparisonName{"equ", Comparison::equ}, ComparisonName{"neu", Comparison::neu},
    ComparisonName{"ltu", Comparison::ltu}, ComparisonName{"leu", Comparison::leu},
    ComparisonName{"gtu", Comparison::gtu}, ComparisonName{"geu", Comparison::geu},
    ComparisonName{"num", Comparison::num}, ComparisonName{"nan", Comparison::nan},
};

template <Comparison comparison, class T>
bool holds(T a, T b) {
  if constexpr (comparison == Comparison::eq) return a == b;
  if constexpr (comparison == Comparison::lt) return a < b;
  if constexpr (comparison == Comparison::le) return a <= b;
  if constexpr (comparison == Comparison::gt) return a > b;
  if constexpr (comparison == Comparison::ge) return a >= b;
  if constexpr (comparison == Comparison::ne) return a < b || a > b;  // false for NaN
  if constexpr (comparison == Comparison::equ) return !(a < b || a > b);
  if constexpr (comparison == Comparison::neu) return !(a == b);
  if constexpr (comparison == Comparison::ltu) return !(a >= b);
  if constexpr (comparison == Comparison::leu) return !(a > b);
  if constexpr (comparison == Comparison::gtu) return !(a <= b);
  if constexpr (comparison == Comparison::geu) return !(a < b);
  if constexpr (comparison == Comparison::num) return a == a && b == b;
  if constexpr (comparison == Comparison::nan) return a != a || b != b;
}

// One bit a lane. The compiler turns the byte loop into vector compares; the bytes are then packed eight at a time.
std::uint32_t pack(const std::uint8_t* flags) {
  std::uint32_t bits = 0;
  for (unsigned group = 0; group < 4; ++group) {
    std::uint64_t eight = 0;
    __builtin_memcpy(&eight, flags + 8 * group, 8);
    bits |= static_cast<std::uint32_t>((eight * 0x0102040810204080U) >> 56) << (8 * group);
  }
  return bits;
}

template <class T, Comparison comparison>
std::uint32_t compare_lanes(Execution& run, const Instruction& i) {
  alignas(64) std::uint8_t flags[kLanes];
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>) {
      flags[lane] = holds<comparison>(static_cast<float>(a[lane]), static_cast<float>(b[lane])) ? 1 : 0;
    } else if constexpr (std::is_same_v<T, float>) {
      flags[lane] = holds<comparison>(flush_if(a[lane], i.flush), flush_if(b[lane], i.flush)) ? 1 : 0;
    } else {
      flags[lane] = holds<comparison>(a[lane], b[lane]) ? 1 : 0;
    }
  }
  return pack(flags);
}

std::uint32_t combine(Execution& run, const Instruction& i, std::uint32_t value) {
  switch (static_cast<Combine>(i.sub & 3)) {
    case Combine::conjunction:
      return value & read_predicate(run, i.source);
    case Combine::disjunction:
      return value | read_predicate(run, i.source);
    case Combine::exclusive:
      return value ^ read_predicate(run, i.source);
    default:
      return value;
  }
}

template <class T, Comparison comparison>
void set_predicate(Execution& run, const Instruction& i, std::uint32_t mask) {
  const std::uint32_t value = compare_lanes<T, comparison>(run, i);
  const std::uint32_t second = i.q.exists ? combine(run, i, ~value) : 0;
  write_predicate(run, i.p, combine(run, i, value), mask);
  write_predicate(run, i.q, second, mask);
}

template <class T, Comparison comparison>
void set_register(Execution& run, const Instruction& i, std::uint32_t mask) {
  constexpr std::uint32_t kTrue[] = {~0U, 0x3f800000U, 0x3c00U, 0x3f80U};
  const std::uint32_t value = combine(run, i, compare_lanes<T, comparison>(run, i));
  const std::uint32_t one = kTrue[i.sub >> 2];
  write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t lane) { return (value >> lane & 1U) != 0 ? one : 0U; });
}

// Pairs: both halves, each to its half of the result (mask or 1.0).
template <class H, Comparison comparison>
void set_pair(Execution& run, const Instruction& i, std::uint32_t mask) {
  constexpr std::uint32_t kTrue[] = {0xffffU, 0, 0x3c00U, 0x3f80U};
  const auto a = lanes_of<std::uint32_t>(run, i.a);
  const auto b = lanes_of<std::uint32_t>(run, i.b);
  const auto value = [](std::uint32_t bits) {
    H half;
    half.bits = static_cast<std::uint16_t>(bits);
    return static_cast<float>(half);
  };
  const std::uint32_t one = kTrue[i.sub >> 2];
  write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::uint32_t low = holds<comparison>(value(a[lane]), value(b[lane])) ? one : 0U;
    const std::uint32_t high = holds<comparison>(value(a[lane] >> 16), value(b[lane] >> 16)) ? one : 0U;
    return low | high << 16;
  });
}

template <class H, Comparison comparison>
void set_predicate_pair(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<std::uint32_t>(run, i.a);
  const auto b = lanes_of<std::uint32_t>(run, i.b);
  const auto value = [](std::uint32_t bits) {
    H half;
    half.bits = static_cast<std::uint16_t>(bits);
    return static_cast<float>(half);
  };
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    low |= static_cast<std::uint32_t>(holds<comparison>(value(a[lane]), value(b[lane]))) << lane;
    high |= static_cast<std::uint32_t>(holds<comparison>(value(a[lane] >> 16), value(b[lane] >> 16))) << lane;
  }
  low = combine(run, i, low);
  high = combine(run, i, high);
  write_predicate(run, i.p, low, mask);
  write_predicate(run, i.q, high, mask);
}

template <class Visit>
Handler visit_comparison(Comparison comparison, Visit visit) {
  switch (comparison) {
#define GPUSIM_CASE(name) \
  case Comparison::name:  \
    return visit.template operator()<Comparison::name>();
    GPUSIM_CASE(eq)
    GPUSIM_CASE(ne)
    GPUSIM_CASE(lt)
    GPUSIM_CASE(le)
    GPUSIM_CASE(gt)
    GPUSIM_CASE(ge)
    GPUSIM_CASE(equ)
    GPUSIM_CASE(neu)
    GPUSIM_CASE(ltu)
    GPUSIM_CASE(leu)
    GPUSIM_CASE(gtu)
    GPUSIM_CASE(geu)
    GPUSIM_CASE(num)
    GPUSIM_CASE(nan)
#undef GPUSIM_CASE
  }
  return nullptr;
}

template <bool to_predicate>
Handler handler_for(Type type, Comparison comparison) {
  const auto of = [comparison]<class T>() -> Handler {
    return visit_comparison(comparison, []<Comparison known>() -> Handler {
      if constexpr (to_predicate) return set_predicate<T, known>;
      return set_register<T, known>;
    });
  };
  const auto of_pair = [comparison]<class H>() -> Handler {
    return visit_comparison(comparison, []<Comparison known>() -> Handler {
      if constexpr (to_predicate) return set_predicate_pair<H, known>;
      return set_pair<H, known>;
    });
  };
  if (type == Type::f16) return of.template operator()<Half>();
  if (type == Type::bf16) return of.template operator()<Bfloat>();
  if (type == Type::f16x2) return of_pair.template operator()<Half>();
  if (type == Type::bf16x2) return of_pair.template operator()<Bfloat>();
  if (const Handler handler = visit_float(type, of)) return handler;
  if (comparison > Comparison::ge) return nullptr;
  return visit_integer(type, of);
}

Comparison take_comparison(Lowering& lowering) {
  for (const auto& [name, comparison] : kComparisons)
    if (lowering.take(name)) return comparison;
  lowering.unsupported("no comparison");
}

// .and/.or/.xor with a predicate as the last operand.
void take_combine(Lowering& lowering, Instruction& instruction, std::size_t at) {
  const int index = lowering.take_one_of({"and", "or", "xor"});
  lowering.expect_arguments(index < 0 ? at : at + 1, index < 0 ? at : at + 1);
  if (index < 0) return;
  instruction.sub |= static_cast<std::uint8_t>(index + 1);
  instruction.source = lowering.predicate_source(at);
}

void lower_setp(Lowering& lowering) {
  Instruction instruction = lowering.start();
  const Comparison comparison = take_comparison(lowering);
  take_combine(lowering, instruction, 3);
  instruction.flush = lowering.take("ftz");
  const Type type = lowering.take_type();
  if (instruction.flush && type != Type::f32) lowering.unsupported("modifier '.ftz'");
  instruction.handler = handler_for<true>(type, comparison);
  if (instruction.handler == nullptr) lowering.unsupported(std::string("comparison of type .") + name_of(type));
  const auto [first, second] = Lowering::split_pair(lowering.argument(0));
  instruction.p = lowering.predicate_destination(first);
  if (!second.empty()) instruction.q = lowering.predicate_destination(second);
  instruction.a = lowering.source(1, type);
  instruction.b = lowering.source(2, type);
  lowering.emit(instruction);
}

void lower_set(Lowering& lowering) {
  Instruction instruction = lowering.start();
  const Comparison comparison = take_comparison(lowering);
  take_combine(lowering, instruction, 3);
  instruction.flush = lowering.take("ftz");
  const Type result = lowering.take_type();
  const Type type = lowering.take_type();
  if (instruction.flush && type != Type::f32) lowering.unsupported("modifier '.ftz'");
  const bool is_pair = type == Type::f16x2 || type == Type::bf16x2;
  Format format = Format::mask;
  if (result == Type::f32) format = Format::one_f32;
  if (result == Type::f16 || result == Type::f16x2) format = Format::one_f16;
  if (result == Type::bf16 || result == Type::bf16x2) format = Format::one_bf16;
  if (bytes_of(result) == 8 || (is_pair && (instruction.sub != 0 || format == Format::one_f32)))
    lowering.unsupported("set with this result");
  instruction.sub |= static_cast<std::uint8_t>(static_cast<unsigned>(format) << 2);
  instruction.handler = handler_for<false>(type, comparison);
  if (instruction.handler == nullptr) lowering.unsupported(std::string("comparison of type .") + name_of(type));
  instruction.d = lowering.destination(0, result);
  instruction.a = lowering.source(1, type);
  instruction.b = lowering.source(2, type);
  lowering.emit(instruction);
}

template <class T>
void select(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  const std::uint32_t chosen = read_predicate(run, i.source);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) { return (chosen >> lane & 1U) != 0 ? a[lane] : b[lane]; });
}

void lower_selp(Lowering& lowering) {
  const Type type = lowering.take_type();
  lowering.expect_arguments(4, 4);
  Instruction instruction = lowering.start();
  instruction.handler = visit_bits(type, []<class T>() -> Handler { return select<T>; });
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
  instruction.d = lowering.destination(0, type);
  instruction.a = lowering.source(1, type);
  instruction.b = lowering.source(2, type);
  instruction.source = lowering.predicate_source(3);
  lowering.emit(instruction);
}

// By the sign of c: a for zero and more, b for less (and for NaN).
template <class T, class C>
void select_by_sign(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  const auto c = lanes_of<C>(run, i.c);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) { return c[lane] >= C{0} ? a[lane] : b[lane]; });
}

void lower_slct(Lowering& lowering) {
  Instruction instruction = lowering.start();
  const Type type = lowering.take_type();
  const Type sign = lowering.take_type();
  lowering.expect_arguments(4, 4);
  if (sign == Type::s32) {
    instruction.handler = visit_bits(type, []<class T>() -> Handler { return select_by_sign<T, std::int32_t>; });
  } else if (sign == Type::f32) {
    instruction.handler = visit_bits(type, []<class T>() -> Handler { return select_by_sign<T, float>; });
  }
  if (instruction.handler == nullptr) lowering.unsupported("types of slct");
  instruction.d = lowering.destination(0, type);
  instruction.a = lowering.source(1, type);
  instruction.b = lowering.source(2, type);
  instruction.c = lowering.source(3, sign);
  lowering.emit(instruction);
}

template <class T>
void test_property(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  std::uint32_t result = 0;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const int kind = std::fpclassify(a[lane]);
    const bool answers[] = {kind != FP_INFINITE && kind != FP_NAN,
                            kind == FP_INFINITE,
                            kind != FP_NAN,
                            kind == FP_NAN,
                            kind == FP_NORMAL,
                            kind == FP_SUBNORMAL};
    result |= static_cast<std::uint32_t>(answers[i.sub]) << lane;
  }
  write_predicate(run, i.p, result, mask);
}

void lower_testp(Lowering& lowering) {
  Instruction instruction = lowering.start();
  const int property = lowering.take_one_of({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  if (property < 0) lowering.unsupported("testp without a property");
  instruction.sub = static_cast<std::uint8_t>(property);
  const Type type = lowering.take_type();
  instruction.handler = visit_float(type, []<class T>() -> Handler { return test_property<T>; });
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
  lowering.expect_arguments(2, 2);
  instruction.p = lowering.predicate_destination(lowering.argument(0));
  instruction.a = lowering.source(1, type);
  lowering.emit(instruction);
}

constexpr Family kFamily[] = {
    {"setp", lower_setp}, {"set", lower_set}, {"selp", lower_selp}, {"slct", lower_slct}, {"testp", lower_testp},
};

}  // namespace

std::span<const Family> compare_family() {
  return kFamily;
}

}  // namespace gpusim::ptx
