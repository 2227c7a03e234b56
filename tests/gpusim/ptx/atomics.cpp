// atom and red. Lanes go in order, lowest first, so floating-point sums repeat exactly.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ptx/dispatch.h"
#include "ptx/float_modifiers.h"
#include "ptx/lanes.h"
#include "ptx/lowering.h"
#include "ptx/memory_access.h"
#include "ptx/memory_modifiers.h"
#include "ptx/statistics.h"

namespace gpusim::ptx {
namespace {

enum class Atomic : std::uint8_t {
  add,
  minimum,
  maximum,
  conjunction,
  disjunction,
  exclusive,
  exchange,
  compare_and_swap,
  increment,
  decrement,
};

// Two 16-bit values in 32 bits, added separately.
template <class H>
struct Pair {
  H low, high;
};

template <class T>
inline constexpr bool kIsPair = std::is_same_v<T, Pair<Half>> || std::is_same_v<T, Pair<Bfloat>>;
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>;

template <class T>
T sum(T a, T b, bool flush) {
  if constexpr (kIsPair<T>) {
    return {sum(a.low, b.low, flush), sum(a.high, b.high, flush)};
  } else if constexpr (kIsHalf<T>) {
    return T(static_cast<float>(a) + static_cast<float>(b));
  } else if constexpr (std::is_floating_point_v<T>) {
    return flush_if(flush_if(a, flush) + flush_if(b, flush), flush);
  } else {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
}

template <class T, Atomic operation>
T changed(T old, T b, T c, bool flush) {
  if constexpr (operation == Atomic::add) return sum(old, b, flush);
  if constexpr (operation == Atomic::exchange) return b;
  if constexpr (std::is_integral_v<T>) {
    if constexpr (operation == Atomic::minimum) return std::min(old, b);
    if constexpr (operation == Atomic::maximum) return std::max(old, b);
    if constexpr (operation == Atomic::conjunction) return static_cast<T>(old & b);
    if constexpr (operation == Atomic::disjunction) return static_cast<T>(old | b);
    if constexpr (operation == Atomic::exclusive) return static_cast<T>(old ^ b);
    if constexpr (operation == Atomic::compare_and_swap) return old == b ? c : old;
    if constexpr (operation == Atomic::increment) return old >= b ? T{0} : static_cast<T>(old + 1);
    if constexpr (operation == Atomic::decrement) return old == 0 || old > b ? b : static_cast<T>(old - 1);
  }
  return old;
}

// sub: kAcquires, kReleases (explicit orders beyond what every atomic does)
template <class T, Atomic operation>
void execute(Execution& run, const Instruction& i, std::uint32_t mask) {
  LaneAddresses addresses;
  const Space space = lane_addresses(run, i, mask, addresses);
  if (space == Space::shared) run.shared_races.begin_instruction();
  if (run.statistics != nullptr) [[unlikely]]
    count_atomics(*run.statistics, mask);
  if ((i.sub & kReleases) != 0) run.block_races.fence();
  const auto b = lanes_of<T>(run, i.b);
  const auto c = lanes_of<T>(run, operation == Atomic::compare_and_swap ? i.c : i.b);
  alignas(64) Slot<T> before[kLanes];
  for_each_lane(mask, [&](std::uint32_t lane) {
    const std::uint64_t address = addresses.lane[lane];
    // An exchange may be the first to write: it needs no value.
    constexpr Use kUse = operation == Atomic::exchange ? Use::strong_write : Use::atomic;
    std::byte* memory = lane_memory(run, lane, space, address, sizeof(T), kUse);
    const bool is_global = space == Space::global || (space == Space::generic && space_of(address) == Space::global);
    if (is_global) run.block_races.synchronise(address, true, true);
    T old;
    std::memcpy(&old, memory, sizeof(T));
    // Float sums in global memory flush subnormals; in shared memory they do not.
    const T fresh = changed<T, operation>(old, b[lane], c[lane], is_global);
    if (is_global && std::memcmp(&fresh, &old, sizeof(T)) != 0) run.has_changed_memory = true;
    std::memcpy(memory, &fresh, sizeof(T));
    before[lane] = to_slot<T>(old);
  });
  if (i.d.exists()) blend(slots_of<T>(run, i.d), before, mask);
}

struct Choice {
  Atomic operation;
  Type type;
};

template <Atomic operation>
Handler integer_handler(Type type) {
  return visit_integer(type, []<class T>() -> Handler {
    if constexpr (sizeof(T) >= 4) return execute<T, operation>;
    return nullptr;
  });
}

Handler add_handler(Type type) {
  switch (type) {
    case Type::f32:
      return execute<float, Atomic::add>;
    case Type::f64:
      return execute<double, Atomic::add>;
    case Type::f16:
      return execute<Half, Atomic::add>;
    case Type::bf16:
      return execute<Bfloat, Atomic::add>;
    case Type::f16x2:
      return execute<Pair<Half>, Atomic::add>;
    case Type::bf16x2:
      return execute<Pair<Bfloat>, Atomic::add>;
    default:
      return integer_handler<Atomic::add>(type);
  }
}

Handler handler_for(const Choice& choice) {
  switch (choice.operation) {
    case Atomic::add:
      return add_handler(choice.type);
    case Atomic::minimum:
      return integer_handler<Atomic::minimum>(choice.type);
    case Atomic::maximum:
      return integer_handler<Atomic::maximum>(choice.type);
    case Atomic::conjunction:
      return integer_handler<Atomic::conjunction>(choice.type);
    case Atomic::disjunction:
      return integer_handler<Atomic::disjunction>(choice.type);
    case Atomic::exclusive:
      return integer_handler<Atomic::exclusive>(choice.type);
    case Atomic::exchange:
      return integer_handler<Atomic::exchange>(choice.type);
    case Atomic::compare_and_swap:
      if (choice.type == Type::b16) return execute<std::uint16_t, Atomic::compare_and_swap>;
      return integer_handler<Atomic::compare_and_swap>(choice.type);
    case Atomic::increment:
      return choice.type == Type::u32 ? execute<std::uint32_t, Atomic::increment> : nullptr;
    case Atomic::decrement:
      return choice.type == Type::u32 ? execute<std::uint32_t, Atomic::decrement> : nullptr;
  }
  return nullptr;
}

void lower_atomic(Lowering& lowering) {
  Instruction instruction = lowering.start();
  const bool has_result = lowering.opcode() == "atom";
  const MemoryModifiers modifiers = take_memory_modifiers(lowering, true);
  const int operation = lowering.take_one_of({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  if (operation < 0) lowering.unsupported("atomic operation");
  lowering.take("noftz");  // 16-bit sums keep subnormals anyway
  const Type type = lowering.take_type();
  instruction.handler = handler_for({static_cast<Atomic>(operation), type});
  if (instruction.handler == nullptr) lowering.unsupported(std::string("atomic on type .") + name_of(type));
  instruction.space = modifiers.space;
  instruction.strong = true;
  instruction.sub =
      static_cast<std::uint8_t>((modifiers.acquire ? kAcquires : 0) | (modifiers.release ? kReleases : 0));
  const bool swaps = static_cast<Atomic>(operation) == Atomic::compare_and_swap;
  const std::size_t at = has_result ? 1 : 0;
  lowering.expect_arguments(at + (swaps ? 3 : 2), at + (swaps ? 3 : 2));
  if (has_result && !lowering.is_sink(lowering.argument(0))) instruction.d = lowering.destination(0, type);
  set_address(lowering, instruction, lowering.memory(at), bytes_of(type));
  instruction.b = lowering.source(at + 1, type);
  if (swaps) instruction.c = lowering.source(at + 2, type);
  lowering.emit(instruction);
}

constexpr Family kFamily[] = {{"atom", lower_atomic}, {"red", lower_atomic}};

}  // namespace

std::span<const Family> atomic_family() {
  return kFamily;
}

}  // namespace gpusim::ptx
