// mov with its packed forms, and the conversions between address spaces.
#include "ptx/dispatch.h"
#include "ptx/lanes.h"
#include "ptx/lowering.h"
#include "ptx/memory_access.h"

namespace gpusim::ptx {
namespace {

template <class T>
void copy(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t lane) { return a[lane]; });
}

void copy_predicate(Execution& run, const Instruction& i, std::uint32_t mask) {
  write_predicate(run, i.p, read_predicate(run, i.source), mask);
}

// sub 1: the upper half of the 64-bit clock
template <class T>
void read_clock(Execution& run, const Instruction& i, std::uint32_t mask) {
  const std::uint64_t now = run.warp_instructions;
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t) { return static_cast<T>(i.sub == 1 ? now >> 32 : now); });
}

// d = {v0, v1, ...}, v0 lowest; elements of T.
template <class D, class T>
void pack(Execution& run, const Instruction& i, std::uint32_t mask) {
  const Operand* list = run.kernel.operands.data() + i.list;
  alignas(64) D packed[kLanes] = {};
  for (unsigned at = 0; at < i.count; ++at) {
    const auto element = lanes_of<T>(run, list[at]);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      packed[lane] |= static_cast<D>(static_cast<D>(element[lane]) << (8 * sizeof(T) * at));
  }
  write_lanes<D>(run, i.d, mask, [&](std::uint32_t lane) { return packed[lane]; });
}

template <class S, class T>
void unpack(Execution& run, const Instruction& i, std::uint32_t mask) {
  const Operand* list = run.kernel.operands.data() + i.list;
  alignas(64) S whole[kLanes];  // a copy: an element may be written over the source
  const auto a = lanes_of<S>(run, i.a);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) whole[lane] = a[lane];
  for (unsigned at = 0; at < i.count; ++at) {
    if (!list[at].exists()) continue;
    write_lanes<T>(run, list[at], mask,
                   [&](std::uint32_t lane) { return static_cast<T>(whole[lane] >> (8 * sizeof(T) * at)); });
  }
}

Type element_type(std::size_t bytes) {
  return bytes == 1 ? Type::b8 : bytes == 2 ? Type::b16 : bytes == 4 ? Type::b32 : Type::none;
}

template <bool packs>
Handler pack_handler(std::size_t whole, std::size_t element) {
  const auto choose = []<class W, class E>() -> Handler {
    if constexpr (packs) return pack<W, E>;
    return unpack<W, E>;
  };
  if (whole == 8 && element == 4) return choose.template operator()<std::uint64_t, std::uint32_t>();
  if (whole == 8 && element == 2) return choose.template operator()<std::uint64_t, std::uint16_t>();
  if (whole == 8 && element == 1) return choose.template operator()<std::uint64_t, std::uint8_t>();
  if (whole == 4 && element == 2) return choose.template operator()<std::uint32_t, std::uint16_t>();
  if (whole == 4 && element == 1) return choose.template operator()<std::uint32_t, std::uint8_t>();
  if (whole == 2 && element == 1) return choose.template operator()<std::uint16_t, std::uint8_t>();
  return nullptr;
}

void lower_packed(Lowering& lowering, Type type, bool packs) {
  const auto texts = lowering.elements(packs ? 1 : 0);
  const std::size_t bytes = bytes_of(type) / texts.size();
  Instruction instruction = lowering.start();
  instruction.count = static_cast<std::uint8_t>(texts.size());
  instruction.handler = packs ? pack_handler<true>(bytes_of(type), bytes) : pack_handler<false>(bytes_of(type), bytes);
  if (instruction.handler == nullptr || bytes * texts.size() != bytes_of(type)) lowering.unsupported("vector of mov");
  std::vector<Operand> operands;
  for (const auto text : texts) {
    if (packs) {
      operands.push_back(lowering.source(text, element_type(bytes)));
    } else {
      operands.push_back(lowering.is_sink(text) ? Operand{} : lowering.destination(text, element_type(bytes)));
    }
  }
  instruction.list = lowering.operand_list(operands);
  if (packs) {
    instruction.d = lowering.destination(0, type);
  } else {
    instruction.a = lowering.source(1, type);
  }
  lowering.emit(instruction);
}

void lower_mov(Lowering& lowering) {
  const Type type = lowering.take_type();
  lowering.expect_arguments(2, 2);
  if (lowering.is_vector(0)) return lower_packed(lowering, type, false);
  if (lowering.is_vector(1)) return lower_packed(lowering, type, true);
  Instruction instruction = lowering.start();
  const std::string_view name = lowering.argument(1).front().text;
  if (type == Type::pred) {
    instruction.handler = copy_predicate;
    instruction.p = lowering.predicate_destination(lowering.argument(0));
    instruction.source = lowering.predicate_source(1);
    lowering.emit(instruction);
    return;
  }
  instruction.d = lowering.destination(0, type);
  if (is_clock(name)) {
    instruction.sub = name == "%clock_hi" ? 1 : 0;
    instruction.handler = bytes_of(type) == 8 ? read_clock<std::uint64_t> : read_clock<std::uint32_t>;
    lowering.emit(instruction);
    return;
  }
  instruction.handler = visit_bits(type, []<class T>() -> Handler { return copy<T>; });
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
  const Symbol symbol = lowering.find(name);
  // Addresses of parameters carry their window from the start: inside an inlined function they are local memory.
  const bool is_parameter = symbol.kind == Symbol::Kind::parameter || symbol.kind == Symbol::Kind::call_slot;
  if (is_parameter) {
    if (bytes_of(type) != 8 || lowering.argument(1).size() != 1) lowering.unsupported("address of a parameter");
    const Space space = symbol.kind == Symbol::Kind::parameter ? Space::parameter : Space::local;
    instruction.a = lowering.constant(symbol.address | window_of(space), Type::u64);
  } else {
    instruction.a = lowering.source(1, type);
  }
  lowering.emit(instruction);
}

Space take_space(Lowering& lowering) {
  switch (lowering.take_one_of({"global", "const", "shared", "shared::cta", "local", "param"})) {
    case 0:
    case 1:
      return Space::global;
    case 2:
    case 3:
      return Space::shared;
    case 4:
      return Space::local;
    case 5:
      return Space::parameter;
    default:
      return Space::generic;
  }
}

// Addresses that have a window keep it: see lower_mov.
template <class T>
void to_generic(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  const std::uint64_t window = window_of(i.space);
  write_lanes<std::uint64_t>(run, i.d, mask, [&](std::uint32_t lane) {
    const std::uint64_t address = a[lane];
    return (address & kWindowMask) != 0 ? address : address | window;
  });
}

void from_generic(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<std::uint64_t>(run, i.a);
  const std::uint64_t keep = i.space == Space::global ? ~std::uint64_t{0} : ~kWindowMask;
  write_lanes<std::uint64_t>(run, i.d, mask, [&](std::uint32_t lane) { return a[lane] & keep; });
}

void lower_cvta(Lowering& lowering) {
  Instruction instruction = lowering.start();
  const bool to_space = lowering.take("to");
  instruction.space = take_space(lowering);
  if (instruction.space == Space::generic) lowering.unsupported("cvta without a space");
  const Type type = lowering.take_type();
  if (bytes_of(type) != 8) lowering.unsupported("32-bit cvta");
  lowering.expect_arguments(2, 2);
  instruction.handler = to_space ? from_generic : to_generic<std::uint64_t>;
  instruction.d = lowering.destination(0, Type::u64);
  instruction.a = lowering.source(1, Type::u64);
  lowering.emit(instruction);
}

void is_in_space(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<std::uint64_t>(run, i.a);
  std::uint32_t result = 0;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    result |= static_cast<std::uint32_t>(space_of(a[lane]) == i.space) << lane;
  write_predicate(run, i.p, result, mask);
}

void lower_isspacep(Lowering& lowering) {
  Instruction instruction = lowering.start();
  instruction.space = take_space(lowering);
  if (instruction.space == Space::generic) lowering.unsupported("isspacep without a space");
  instruction.handler = is_in_space;
  lowering.expect_arguments(2, 2);
  instruction.p = lowering.predicate_destination(lowering.argument(0));
  instruction.a = lowering.source(1, Type::u64);
  lowering.emit(instruction);
}

constexpr Family kFamily[] = {{"mov", lower_mov}, {"cvta", lower_cvta}, {"isspacep", lower_isspacep}};

}  // namespace

std::span<const Family> move_family() {
  return kFamily;
}

}  // namespace gpusim::ptx
