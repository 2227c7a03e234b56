// Operations on bits: logic, shifts, fields, counts, permutations.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "ptx/dispatch.h"
#include "ptx/lanes.h"
#include "ptx/lowering.h"

namespace gpusim::ptx {
namespace {

enum class Logic { conjunction, disjunction, exclusive };

template <Logic operation, class T>
T combine(T a, T b) {
  if constexpr (operation == Logic::conjunction) return static_cast<T>(a & b);
  if constexpr (operation == Logic::disjunction) return static_cast<T>(a | b);
  if constexpr (operation == Logic::exclusive) return static_cast<T>(a ^ b);
}

template <class T, Logic operation>
void logic(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) { return combine<operation>(a[lane], b[lane]); });
}

// Sources are `source` and `q` (read here, not written).
template <Logic operation>
void predicate_logic(Execution& run, const Instruction& i, std::uint32_t mask) {
  write_predicate(run, i.p, combine<operation>(read_predicate(run, i.source), read_predicate(run, i.q)), mask);
}

void predicate_not(Execution& run, const Instruction& i, std::uint32_t mask) {
  write_predicate(run, i.p, ~read_predicate(run, i.source), mask);
}

template <class T>
void complement(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) { return static_cast<T>(~a[lane]); });
}

template <class T>
void logical_not(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) { return static_cast<T>(a[lane] == 0 ? 1 : 0); });
}

template <class T>
void shift_left(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<std::uint32_t>(run, i.b);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::uint32_t by = b[lane];
    return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(a[lane] << by);
  });
}

template <class T>
void shift_right(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<std::uint32_t>(run, i.b);
  constexpr std::uint32_t kBits = 8 * sizeof(T);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::uint32_t by = b[lane];
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a[lane] >> std::min(by, kBits - 1));
    return by >= kBits ? T{0} : static_cast<T>(a[lane] >> by);
  });
}

// sub: 1 right, 2 wrap
void funnel_shift(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<std::uint32_t>(run, i.a);
  const auto b = lanes_of<std::uint32_t>(run, i.b);
  const auto c = lanes_of<std::uint32_t>(run, i.c);
  write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::uint32_t by = (i.sub & 2) != 0 ? c[lane] & 31U : std::min(c[lane], 32U);
    const std::uint64_t both = std::uint64_t{b[lane]} << 32 | a[lane];
    return static_cast<std::uint32_t>((i.sub & 1) != 0 ? both >> by : (both << by) >> 32);
  });
}

void any_logic_of_three(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<std::uint32_t>(run, i.a);
  const auto b = lanes_of<std::uint32_t>(run, i.b);
  const auto c = lanes_of<std::uint32_t>(run, i.c);
  std::uint32_t row[8];  // of the truth table, as masks
  for (unsigned at = 0; at < 8; ++at) row[at] = (i.immediate >> at & 1) != 0 ? ~0U : 0U;
  write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::uint32_t x = a[lane];
    const std::uint32_t y = b[lane];
    const std::uint32_t z = c[lane];
    return (row[0] & ~x & ~y & ~z) | (row[1] & ~x & ~y & z) | (row[2] & ~x & y & ~z) | (row[3] & ~x & y & z) |
           (row[4] & x & ~y & ~z) | (row[5] & x & ~y & z) | (row[6] & x & y & ~z) | (row[7] & x & y & z);
  });
}

template <class T>
void extract_field(Execution& run, const Instruction& i, std::uint32_t mask) {
  using U = std::make_unsigned_t<T>;
  constexpr std::uint32_t kBits = 8 * sizeof(T);
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<std::uint32_t>(run, i.b);
  const auto c = lanes_of<std::uint32_t>(run, i.c);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::uint32_t position = b[lane] & 255U;
    const std::uint32_t length = c[lane] & 255U;
    if (length == 0) return T{0};
    const U bits = position >= kBits ? U{0} : static_cast<U>(static_cast<U>(a[lane]) >> position);
    const U field = length >= kBits ? ~U{0} : static_cast<U>((U{1} << length) - 1);
    if constexpr (std::is_signed_v<T>) {
      const std::uint32_t sign_at = std::min(position + length - 1, kBits - 1);
      const bool negative = (static_cast<U>(a[lane]) >> sign_at & 1U) != 0;
      // Bits that lie beyond the operand repeat the sign too.
      const U present = position >= kBits ? U{0} : static_cast<U>(~U{0} >> position);
      return static_cast<T>(negative ? (bits & field) | ~(field & present) : bits & field);
    }
    return static_cast<T>(bits & field);
  });
}

template <class T>
void insert_field(Execution& run, const Instruction& i, std::uint32_t mask) {
  constexpr std::uint32_t kBits = 8 * sizeof(T);
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  const auto c = lanes_of<std::uint32_t>(run, i.c);
  const auto lengths = lanes_of<std::uint32_t>(run, run.kernel.operands[i.list]);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::uint32_t position = c[lane] & 255U;
    const std::uint32_t length = lengths[lane] & 255U;
    if (position >= kBits) return b[lane];
    const T field = static_cast<T>((length >= kBits ? ~T{0} : (T{1} << length) - 1) << position);
    return static_cast<T>((b[lane] & ~field) | ((a[lane] << position) & field));
  });
}

template <class T>
void count_ones(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  write_lanes<std::uint32_t>(run, i.d, mask,
                             [&](std::uint32_t lane) { return static_cast<std::uint32_t>(std::popcount(a[lane])); });
}

template <class T>
void count_leading_zeros(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  write_lanes<std::uint32_t>(run, i.d, mask,
                             [&](std::uint32_t lane) { return static_cast<std::uint32_t>(std::countl_zero(a[lane])); });
}

template <class T>
void reverse(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
    T result = 0;
    for (T bits = a[lane], at = 0; at < 8 * sizeof(T); ++at, bits >>= 1)
      result = static_cast<T>(result << 1 | (bits & 1U));
    return result;
  });
}

// sub 1: .shiftamt
template <class T>
void find_highest(Execution& run, const Instruction& i, std::uint32_t mask) {
  using U = std::make_unsigned_t<T>;
  const auto a = lanes_of<T>(run, i.a);
  write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t lane) {
    const U bits = std::is_signed_v<T> && a[lane] < 0 ? static_cast<U>(~a[lane]) : static_cast<U>(a[lane]);
    if (bits == 0) return ~0U;
    const auto zeros = static_cast<std::uint32_t>(std::countl_zero(bits));
    return i.sub == 1 ? zeros : static_cast<std::uint32_t>(8 * sizeof(T)) - 1 - zeros;
  });
}

// sub 1: .clamp
void bit_mask(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<std::uint32_t>(run, i.a);
  const auto b = lanes_of<std::uint32_t>(run, i.b);
  write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::uint32_t position = i.sub == 1 ? a[lane] : a[lane] & 31U;
    const std::uint32_t length = i.sub == 1 ? b[lane] : b[lane] & 31U;
    if (position >= 32) return 0U;
    return (length >= 32 ? ~0U : (1U << length) - 1) << position;
  });
}

void permute_bytes(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<std::uint32_t>(run, i.a);
  const auto b = lanes_of<std::uint32_t>(run, i.b);
  const auto c = lanes_of<std::uint32_t>(run, i.c);
  write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::uint64_t bytes = std::uint64_t{b[lane]} << 32 | a[lane];
    std::uint32_t result = 0;
    for (unsigned at = 0; at < 4; ++at) {
      const std::uint32_t selector = c[lane] >> (4 * at);
      std::uint32_t byte = bytes >> (8 * (selector & 7U)) & 255U;
      if ((selector & 8U) != 0) byte = (byte & 128U) != 0 ? 255U : 0U;
      result |= byte << (8 * at);
    }
    return result;
  });
}

// sub: 1 a signed, 2 b signed
void dot_product_of_bytes(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<std::uint32_t>(run, i.a);
  const auto b = lanes_of<std::uint32_t>(run, i.b);
  const auto c = lanes_of<std::uint32_t>(run, i.c);
  const auto byte = [](std::uint32_t bits, unsigned at, bool is_signed) {
    const auto value = static_cast<std::uint8_t>(bits >> (8 * at));
    return is_signed ? static_cast<std::int32_t>(static_cast<std::int8_t>(value)) : static_cast<std::int32_t>(value);
  };
  write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t lane) {
    std::uint32_t sum = c[lane];
    for (unsigned at = 0; at < 4; ++at)
      sum += static_cast<std::uint32_t>(byte(a[lane], at, (i.sub & 1) != 0) * byte(b[lane], at, (i.sub & 2) != 0));
    return sum;
  });
}

void require(Lowering& lowering, const Instruction& instruction, Type type) {
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
}

template <Logic operation>
void lower_logic(Lowering& lowering) {
  const Type type = lowering.take_type();
  lowering.expect_arguments(3, 3);
  Instruction instruction = lowering.start();
  if (type == Type::pred) {
    instruction.handler = predicate_logic<operation>;
    instruction.p = lowering.predicate_destination(lowering.argument(0));
    instruction.source = lowering.predicate_source(1);
    instruction.q = lowering.predicate_source(2);
  } else {
    instruction.handler = visit_bits(type, []<class T>() -> Handler { return logic<T, operation>; });
    require(lowering, instruction, type);
    instruction.d = lowering.destination(0, type);
    instruction.a = lowering.source(1, type);
    instruction.b = lowering.source(2, type);
  }
  lowering.emit(instruction);
}

void lower_not(Lowering& lowering) {
  const Type type = lowering.take_type();
  lowering.expect_arguments(2, 2);
  Instruction instruction = lowering.start();
  if (type == Type::pred) {
    instruction.handler = predicate_not;
    instruction.p = lowering.predicate_destination(lowering.argument(0));
    instruction.source = lowering.predicate_source(1);
  } else {
    instruction.handler = lowering.opcode() == "not"
                              ? visit_bits(type, []<class T>() -> Handler { return complement<T>; })
                              : visit_bits(type, []<class T>() -> Handler { return logical_not<T>; });
    require(lowering, instruction, type);
    instruction.d = lowering.destination(0, type);
    instruction.a = lowering.source(1, type);
  }
  lowering.emit(instruction);
}

void lower_shift(Lowering& lowering) {
  const Type type = lowering.take_type();
  lowering.expect_arguments(3, 3);
  Instruction instruction = lowering.start();
  instruction.handler = lowering.opcode() == "shl"
                            ? visit_bits(type, []<class T>() -> Handler { return shift_left<T>; })
                            : visit_integer(type, []<class T>() -> Handler { return shift_right<T>; });
  require(lowering, instruction, type);
  instruction.d = lowering.destination(0, type);
  instruction.a = lowering.source(1, type);
  instruction.b = lowering.source(2, Type::u32);
  lowering.emit(instruction);
}

// d, a and up to two more operands, all of 32 bits unless said otherwise.
void emit_with(Lowering& lowering, Instruction instruction, Type result, Type first, std::size_t arguments) {
  lowering.expect_arguments(arguments, arguments);
  instruction.d = lowering.destination(0, result);
  instruction.a = lowering.source(1, first);
  if (arguments > 2) instruction.b = lowering.source(2, Type::u32);
  if (arguments > 3) instruction.c = lowering.source(3, Type::u32);
  lowering.emit(instruction);
}

void lower_funnel_shift(Lowering& lowering) {
  Instruction instruction = lowering.start();
  const int direction = lowering.take_one_of({"l", "r"});
  const int mode = lowering.take_one_of({"clamp", "wrap"});
  if (direction < 0 || mode < 0) lowering.unsupported("shf without direction or mode");
  instruction.sub = static_cast<std::uint8_t>(direction | mode << 1);
  instruction.handler = funnel_shift;
  lowering.take_type();
  emit_with(lowering, instruction, Type::b32, Type::b32, 4);
}

void lower_logic_of_three(Lowering& lowering) {
  Instruction instruction = lowering.start();
  if (lowering.take_type() != Type::b32) lowering.unsupported("type");
  instruction.handler = any_logic_of_three;
  lowering.expect_arguments(5, 5);
  instruction.immediate = static_cast<std::int64_t>(lowering.constant_integer(4));
  instruction.d = lowering.destination(0, Type::b32);
  instruction.a = lowering.source(1, Type::b32);
  instruction.b = lowering.source(2, Type::b32);
  instruction.c = lowering.source(3, Type::b32);
  lowering.emit(instruction);
}

void lower_extract_field(Lowering& lowering) {
  const Type type = lowering.take_type();
  Instruction instruction = lowering.start();
  if (bytes_of(type) >= 4)
    instruction.handler = visit_integer(type, []<class T>() -> Handler { return extract_field<T>; });
  require(lowering, instruction, type);
  emit_with(lowering, instruction, type, type, 4);
}

void lower_insert_field(Lowering& lowering) {
  const Type type = lowering.take_type();
  Instruction instruction = lowering.start();
  if (type == Type::b32) instruction.handler = insert_field<std::uint32_t>;
  if (type == Type::b64) instruction.handler = insert_field<std::uint64_t>;
  require(lowering, instruction, type);
  lowering.expect_arguments(5, 5);
  instruction.d = lowering.destination(0, type);
  instruction.a = lowering.source(1, type);
  instruction.b = lowering.source(2, type);
  instruction.c = lowering.source(3, Type::u32);
  instruction.list = lowering.operand_list({lowering.source(4, Type::u32)});
  lowering.emit(instruction);
}

void lower_count(Lowering& lowering) {
  const Type type = lowering.take_type();
  if (bytes_of(type) < 4) lowering.unsupported(std::string("type .") + name_of(type));
  Instruction instruction = lowering.start();
  Type result = Type::u32;
  if (lowering.opcode() == "popc") {
    instruction.handler = visit_bits(type, []<class T>() -> Handler { return count_ones<T>; });
  } else if (lowering.opcode() == "clz") {
    instruction.handler = visit_bits(type, []<class T>() -> Handler { return count_leading_zeros<T>; });
  } else if (lowering.opcode() == "brev") {
    instruction.handler = visit_bits(type, []<class T>() -> Handler { return reverse<T>; });
    result = type;
  } else {
    instruction.sub = lowering.take("shiftamt") ? 1 : 0;
    instruction.handler = visit_integer(type, []<class T>() -> Handler { return find_highest<T>; });
  }
  require(lowering, instruction, type);
  emit_with(lowering, instruction, result, type, 2);
}

void lower_bit_mask(Lowering& lowering) {
  Instruction instruction = lowering.start();
  const int mode = lowering.take_one_of({"wrap", "clamp"});
  if (mode < 0) lowering.unsupported("bmsk without a mode");
  instruction.sub = static_cast<std::uint8_t>(mode);
  instruction.handler = bit_mask;
  lowering.take_type();
  emit_with(lowering, instruction, Type::b32, Type::b32, 3);
}

void lower_permute(Lowering& lowering) {
  Instruction instruction = lowering.start();
  instruction.handler = permute_bytes;
  lowering.take_type();
  emit_with(lowering, instruction, Type::b32, Type::b32, 4);
}

void lower_dot_product(Lowering& lowering) {
  Instruction instruction = lowering.start();
  instruction.handler = dot_product_of_bytes;
  const Type first = lowering.take_type();
  const Type second = lowering.take_type();
  instruction.sub = static_cast<std::uint8_t>((first == Type::s32 ? 1 : 0) | (second == Type::s32 ? 2 : 0));
  emit_with(lowering, instruction, Type::b32, Type::b32, 4);
}

constexpr Family kFamily[] = {
    {"and", lower_logic<Logic::conjunction>},
    {"or", lower_logic<Logic::disjunction>},
    {"xor", lower_logic<Logic::exclusive>},
    {"not", lower_not},
    {"cnot", lower_not},
    {"shl", lower_shift},
    {"shr", lower_shift},
    {"shf", lower_funnel_shift},
    {"lop3", lower_logic_of_three},
    {"bfe", lower_extract_field},
    {"bfi", lower_insert_field},
    {"popc", lower_count},
    {"clz", lower_count},
    {"brev", lower_count},
    {"bfind", lower_count},
    {"bmsk", lower_bit_mask},
    {"prmt", lower_permute},
    {"dp4a", lower_dot_product},
};

}  // namespace

std::span<const Family> bits_family() {
  return kFamily;
}

}  // namespace gpusim::ptx
