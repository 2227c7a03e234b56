// Operations across the lanes of a warp: shfl, vote, match, redux, activemask, elect. The scheduler calls the handlers
// of the .sync forms when all members of the mask have come, with exactly these lanes.
#include <algorithm>
#include <bit>

#include "ptx/dispatch.h"
#include "ptx/lanes.h"
#include "ptx/lowering.h"

namespace gpusim::ptx {
namespace {

enum class Shuffle : std::uint8_t { index, up, down, butterfly };

// What a lane sees that reads from one which does not take part: undefined on a GPU, recognisable here.
constexpr std::uint32_t kPoison = 0xcbcbcbcbU;

void shuffle(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<std::uint32_t>(run, i.a);
  const auto b = lanes_of<std::uint32_t>(run, i.b);
  const auto c = lanes_of<std::uint32_t>(run, i.c);
  alignas(64) std::uint32_t result[kLanes] = {};
  std::uint32_t in_range = 0;
  for_each_lane(mask, [&](std::uint32_t lane) {
    const auto by = static_cast<std::int32_t>(b[lane] & 31U);
    const std::uint32_t segment = c[lane] >> 8 & 31U;
    const auto here = static_cast<std::int32_t>(lane);
    const auto bound = static_cast<std::int32_t>((lane & segment) | (c[lane] & 31U & ~segment));
    const auto base = static_cast<std::int32_t>(lane & segment);
    std::int32_t from = here;
    bool is_valid = false;
    switch (static_cast<Shuffle>(i.sub)) {
      case Shuffle::up:
        from = here - by;
        is_valid = from >= bound;
        break;
      case Shuffle::down:
        from = here + by;
        is_valid = from <= bound;
        break;
      case Shuffle::butterfly:
        from = here ^ by;
        is_valid = from <= bound;
        break;
      case Shuffle::index:
        from = base | (by & ~static_cast<std::int32_t>(segment));
        is_valid = from <= bound;
        break;
    }
    if (!is_valid) from = here;
    in_range |= static_cast<std::uint32_t>(is_valid) << lane;
    const auto source = static_cast<std::uint32_t>(from);
    result[lane] = (mask >> source & 1U) != 0 ? a[source] : kPoison;
  });
  blend(slots_of<std::uint32_t>(run, i.d), result, mask);
  write_predicate(run, i.p, in_range, mask);
}

enum class Vote : std::uint8_t { all, any, uniform, ballot };

void vote(Execution& run, const Instruction& i, std::uint32_t mask) {
  const std::uint32_t ayes = read_predicate(run, i.source) & mask;
  const auto kind = static_cast<Vote>(i.sub);
  if (kind == Vote::ballot) {
    write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t) { return ayes; });
    return;
  }
  const bool result = kind == Vote::all ? ayes == mask : kind == Vote::any ? ayes != 0 : ayes == 0 || ayes == mask;
  write_predicate(run, i.p, result ? kAllLanes : 0U, mask);
}

// sub 1: match.all
template <class T>
void match(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  alignas(64) std::uint32_t result[kLanes] = {};
  std::uint32_t agreed = 0;
  for_each_lane(mask, [&](std::uint32_t lane) {
    std::uint32_t same = 0;
    for_each_lane(mask, [&](std::uint32_t other) { same |= static_cast<std::uint32_t>(a[other] == a[lane]) << other; });
    const bool all = same == mask;
    agreed |= static_cast<std::uint32_t>(all) << lane;
    result[lane] = i.sub == 1 ? (all ? mask : 0U) : same;
  });
  blend(slots_of<std::uint32_t>(run, i.d), result, mask);
  write_predicate(run, i.p, agreed, mask);
}

enum class Reduction : std::uint8_t { add, minimum, maximum, conjunction, disjunction, exclusive };

template <class T>
void reduce(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<T>(run, i.a);
  T result = a[static_cast<std::uint32_t>(std::countr_zero(mask))];
  for_each_lane(mask & (mask - 1), [&](std::uint32_t lane) {
    const T x = a[lane];
    switch (static_cast<Reduction>(i.sub)) {
      case Reduction::add:
        result = static_cast<T>(static_cast<std::uint32_t>(result) + static_cast<std::uint32_t>(x));
        break;
      case Reduction::minimum:
        result = std::min(result, x);
        break;
      case Reduction::maximum:
        result = std::max(result, x);
        break;
      case Reduction::conjunction:
        result &= x;
        break;
      case Reduction::disjunction:
        result |= x;
        break;
      case Reduction::exclusive:
        result ^= x;
        break;
    }
  });
  write_lanes<T>(run, i.d, mask, [&](std::uint32_t) { return result; });
}

void active_mask(Execution& run, const Instruction& i, std::uint32_t mask) {
  write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t) { return mask; });
}

void elect(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto leader = static_cast<std::uint32_t>(std::countr_zero(mask));
  if (i.d.exists()) write_lanes<std::uint32_t>(run, i.d, mask, [&](std::uint32_t) { return leader; });
  write_predicate(run, i.p, 1U << leader, mask);
}

// Every .sync form: the operand with the member mask.
void set_members(Lowering& lowering, Instruction& instruction, std::size_t index) {
  instruction.control = Control::warp_sync;
  instruction.target = lowering.source(index, Type::b32).bits;
}

void require_sync(Lowering& lowering) {
  if (!lowering.take("sync"))
    lowering.unsupported("warp operation without .sync (it does not exist for sm_70 and later)");
}

void lower_shfl(Lowering& lowering) {
  require_sync(lowering);
  Instruction instruction = lowering.start();
  const int mode = lowering.take_one_of({"idx", "up", "down", "bfly"});
  if (mode < 0) lowering.unsupported("shfl without a mode");
  if (bytes_of(lowering.take_type()) != 4) lowering.unsupported("shfl of other than 32 bits");
  lowering.expect_arguments(5, 5);
  instruction.sub = static_cast<std::uint8_t>(mode);
  instruction.handler = shuffle;
  const auto [value, predicate] = Lowering::split_pair(lowering.argument(0));
  instruction.d = lowering.destination(value, Type::b32);
  if (!predicate.empty()) instruction.p = lowering.predicate_destination(predicate);
  instruction.a = lowering.source(1, Type::b32);
  instruction.b = lowering.source(2, Type::b32);
  instruction.c = lowering.source(3, Type::b32);
  set_members(lowering, instruction, 4);
  lowering.emit(instruction);
}

void lower_vote(Lowering& lowering) {
  require_sync(lowering);
  Instruction instruction = lowering.start();
  const int mode = lowering.take_one_of({"all", "any", "uni", "ballot"});
  if (mode < 0) lowering.unsupported("vote without a mode");
  lowering.take_type();
  lowering.expect_arguments(3, 3);
  instruction.sub = static_cast<std::uint8_t>(mode);
  instruction.handler = vote;
  if (static_cast<Vote>(mode) == Vote::ballot) {
    instruction.d = lowering.destination(0, Type::b32);
  } else {
    instruction.p = lowering.predicate_destination(lowering.argument(0));
  }
  instruction.source = lowering.predicate_source(1);
  set_members(lowering, instruction, 2);
  lowering.emit(instruction);
}

void lower_match(Lowering& lowering) {
  require_sync(lowering);
  Instruction instruction = lowering.start();
  const int mode = lowering.take_one_of({"any", "all"});
  if (mode < 0) lowering.unsupported("match without a mode");
  const Type type = lowering.take_type();
  lowering.expect_arguments(3, 3);
  instruction.sub = static_cast<std::uint8_t>(mode);
  if (bytes_of(type) == 4) instruction.handler = match<std::uint32_t>;
  if (bytes_of(type) == 8) instruction.handler = match<std::uint64_t>;
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
  const auto [value, predicate] = Lowering::split_pair(lowering.argument(0));
  instruction.d = lowering.destination(value, Type::b32);
  if (!predicate.empty()) instruction.p = lowering.predicate_destination(predicate);
  instruction.a = lowering.source(1, type);
  set_members(lowering, instruction, 2);
  lowering.emit(instruction);
}

void lower_redux(Lowering& lowering) {
  require_sync(lowering);
  Instruction instruction = lowering.start();
  const int operation = lowering.take_one_of({"add", "min", "max", "and", "or", "xor"});
  if (operation < 0) lowering.unsupported("redux without an operation");
  const Type type = lowering.take_type();
  lowering.expect_arguments(3, 3);
  instruction.sub = static_cast<std::uint8_t>(operation);
  if (type == Type::s32) instruction.handler = reduce<std::int32_t>;
  if (type == Type::u32 || type == Type::b32) instruction.handler = reduce<std::uint32_t>;
  if (instruction.handler == nullptr) lowering.unsupported(std::string("type .") + name_of(type));
  instruction.d = lowering.destination(0, type);
  instruction.a = lowering.source(1, type);
  set_members(lowering, instruction, 2);
  lowering.emit(instruction);
}

void lower_activemask(Lowering& lowering) {
  lowering.take_type();
  lowering.expect_arguments(1, 1);
  Instruction instruction = lowering.start();
  instruction.handler = active_mask;
  instruction.d = lowering.destination(0, Type::b32);
  lowering.emit(instruction);
}

void lower_elect(Lowering& lowering) {
  require_sync(lowering);
  lowering.expect_arguments(2, 2);
  Instruction instruction = lowering.start();
  instruction.handler = elect;
  const auto [value, predicate] = Lowering::split_pair(lowering.argument(0));
  if (!lowering.is_sink(value)) instruction.d = lowering.destination(value, Type::b32);
  instruction.p = lowering.predicate_destination(predicate);
  set_members(lowering, instruction, 1);
  lowering.emit(instruction);
}

constexpr Family kFamily[] = {
    {"shfl", lower_shfl},
    {"vote", lower_vote},
    {"match", lower_match},
    {"redux", lower_redux},
    {"activemask", lower_activemask},
    {"elect", lower_elect},
};

}  // namespace

std::span<const Family> warp_family() {
  return kFamily;
}

}  // namespace gpusim::ptx
