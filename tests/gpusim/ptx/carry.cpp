// Arithmetic with the carry flag: add.cc, addc, sub.cc, subc, mad.cc, madc. The flag is one bit a lane.
#include <type_traits>

#include "ptx/lanes.h"
#include "ptx/lowering.h"

namespace gpusim::ptx {

void lower_carry_arithmetic(Lowering& lowering);

namespace {

enum class Kind : std::uint8_t { add, subtract, multiply_add_low, multiply_add_high };
constexpr std::uint8_t kCarryIn = 4;  // bits of Instruction::sub beside the kind
constexpr std::uint8_t kCarryOut = 8;

template <class T>
T product_half(T a, T b, bool high, bool is_signed_product) {
  __extension__ typedef unsigned __int128 Wide;
  __extension__ typedef __int128 SignedWide;
  using S = std::make_signed_t<T>;
  const Wide product = is_signed_product
                           ? static_cast<Wide>(static_cast<SignedWide>(static_cast<S>(a)) * static_cast<S>(b))
                           : static_cast<Wide>(a) * b;
  return static_cast<T>(high ? product >> (8 * sizeof(T)) : product);
}

template <class T, bool is_signed_product>
void execute(Execution& run, const Instruction& i, std::uint32_t mask) {
  __extension__ typedef unsigned __int128 Wide;
  const auto kind = static_cast<Kind>(i.sub & 3);
  const auto a = lanes_of<T>(run, i.a);
  const auto b = lanes_of<T>(run, i.b);
  const bool multiplies = kind == Kind::multiply_add_low || kind == Kind::multiply_add_high;
  const auto c = lanes_of<T>(run, multiplies ? i.c : i.a);
  const std::uint32_t carry_in = (i.sub & kCarryIn) != 0 ? run.warp->carry : 0;
  std::uint32_t carry_out = 0;
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) {
    const Wide carry = carry_in >> lane & 1U;
    Wide result = 0;
    if (kind == Kind::subtract) {
      result = Wide{a[lane]} - b[lane] - carry;
    } else if (kind == Kind::add) {
      result = Wide{a[lane]} + b[lane] + carry;
    } else {
      result =
          Wide{product_half(a[lane], b[lane], kind == Kind::multiply_add_high, is_signed_product)} + c[lane] + carry;
    }
    carry_out |= static_cast<std::uint32_t>((result >> (8 * sizeof(T))) & 1U) << lane;
    return static_cast<T>(result);
  });
  if ((i.sub & kCarryOut) != 0) run.warp->carry = (run.warp->carry & ~mask) | (carry_out & mask);
}

// `sets`: .cc was there.
void lower(Lowering& lowering, bool sets) {
  const std::string_view opcode = lowering.opcode();
  const bool uses = opcode.ends_with('c');
  const bool multiplies = opcode.starts_with("mad");
  Kind kind = opcode.starts_with("sub") ? Kind::subtract : Kind::add;
  if (multiplies) {
    const int half = lowering.take_one_of({"lo", "hi"});
    if (half < 0) lowering.unsupported("product without .lo or .hi");
    kind = half == 0 ? Kind::multiply_add_low : Kind::multiply_add_high;
  }
  const Type type = lowering.take_type();
  lowering.expect_arguments(multiplies ? 4 : 3, multiplies ? 4 : 3);
  Instruction instruction = lowering.start();
  instruction.sub =
      static_cast<std::uint8_t>(static_cast<std::uint8_t>(kind) | (uses ? kCarryIn : 0) | (sets ? kCarryOut : 0));
  switch (type) {
    case Type::u32:
    case Type::b32:
      instruction.handler = execute<std::uint32_t, false>;
      break;
    case Type::s32:
      instruction.handler = execute<std::uint32_t, true>;
      break;
    case Type::u64:
    case Type::b64:
      instruction.handler = execute<std::uint64_t, false>;
      break;
    case Type::s64:
      instruction.handler = execute<std::uint64_t, true>;
      break;
    default:
      lowering.unsupported(std::string("type .") + name_of(type));
  }
  instruction.d = lowering.destination(0, type);
  instruction.a = lowering.source(1, type);
  instruction.b = lowering.source(2, type);
  if (multiplies) instruction.c = lowering.source(3, type);
  lowering.emit(instruction);
}

void lower_with_carry_in(Lowering& lowering) {
  lower(lowering, lowering.take("cc"));
}

constexpr Family kFamily[] = {
    {"addc", lower_with_carry_in},
    {"subc", lower_with_carry_in},
    {"madc", lower_with_carry_in},
};

}  // namespace

// add.cc, sub.cc, mad.cc: the modifier is already taken.
void lower_carry_arithmetic(Lowering& lowering) {
  lower(lowering, true);
}

std::span<const Family> carry_family() {
  return kFamily;
}

}  // namespace gpusim::ptx
