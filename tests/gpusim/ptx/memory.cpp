// ld, st and prefetches. Rows of consecutive addresses and broadcasts take a short way; the rest goes lane by lane.
#include <bit>
#include <cstring>

#include "ptx/lanes.h"
#include "ptx/location.h"
#include "ptx/lowering.h"
#include "ptx/memory_access.h"
#include "ptx/memory_modifiers.h"
#include "ptx/statistics.h"

namespace gpusim::ptx {
namespace {

template <class M>
M read(const std::byte* from) {
  M value;
  std::memcpy(&value, from, sizeof(M));
  return value;
}

void acquire_lanes(Execution& run, Space space, const LaneAddresses& addresses, std::uint32_t mask, bool release) {
  if (space != Space::global && space != Space::generic) return;
  for_each_lane(mask, [&](std::uint32_t lane) {
    if (space_of(addresses.lane[lane]) == Space::global)
      run.block_races.synchronise(addresses.lane[lane], !release, release);
  });
}

// Calls visit(segment) for pieces of memory that together are the access of all lanes of the mask.
template <class Visit>
void for_each_piece(Execution& run, Space space, const LaneAddresses& addresses, std::uint32_t mask, std::size_t bytes,
                    Use use, Visit visit) {
  const auto lane_by_lane = [&](std::uint32_t lanes) {
    for_each_lane(lanes, [&](std::uint32_t lane) {
      visit(Segment{lane_memory(run, lane, space, addresses.lane[lane], bytes, use), lane, 1, bytes});
    });
  };
  if (space != Space::global && space != Space::shared) return lane_by_lane(mask);
  if (space == Space::shared && !has_long_segment(addresses, mask, bytes) &&
      shared_lanes(run, addresses, mask, bytes, use)) {
    for_each_lane(mask, [&](std::uint32_t lane) {
      visit(Segment{run.shared.data() + addresses.lane[lane], lane, 1, bytes});
    });
    return;
  }
  for (std::uint32_t rest = mask; rest != 0;) {
    const Segment segment = next_segment(run, space, addresses, rest, bytes, use);
    const std::uint32_t lanes = (segment.count == kLanes ? kAllLanes : (1U << segment.count) - 1) << segment.first;
    if (segment.memory != nullptr) {
      visit(segment);
    } else {
      lane_by_lane(lanes);
    }
    rest &= ~lanes;
  }
}

template <class M, unsigned count>
void load(Execution& run, const Instruction& i, std::uint32_t mask) {
  LaneAddresses addresses;
  const Space space = lane_addresses(run, i, mask, addresses);
  constexpr std::size_t kBytes = sizeof(M) * count;
  const Use use = i.strong ? Use::strong_read : Use::read;
  if (space == Space::shared) run.shared_races.begin_instruction();
  if (run.statistics != nullptr) [[unlikely]]
    count_access(*run.statistics, {space, addresses, mask, kBytes, false});
  if ((i.sub & kAcquires) != 0) acquire_lanes(run, space, addresses, mask, false);

  const Operand* list = run.kernel.operands.data() + i.list;
  Slot<M>* rows[count];
  for (unsigned at = 0; at < count; ++at) {
    const Operand row = count == 1 ? i.d : list[at];
    rows[at] = row.exists() ? slots_of<M>(run, row) : nullptr;
  }
  for_each_piece(run, space, addresses, mask, kBytes, use, [&](const Segment& piece) {
    if (piece.count == 1) {
      for (unsigned at = 0; at < count; ++at)
        if (rows[at] != nullptr) rows[at][piece.first] = to_slot<M>(read<M>(piece.memory + at * sizeof(M)));
      return;
    }
    if constexpr (count == 1 && sizeof(M) == sizeof(Slot<M>)) {
      if (piece.stride != 0) {
        std::memcpy(rows[0] + piece.first, piece.memory, piece.count * sizeof(M));
        return;
      }
    }
    for (unsigned at = 0; at < count; ++at) {
      if (rows[at] == nullptr) continue;
      const std::byte* from = piece.memory + at * sizeof(M);
      for (std::uint32_t lane = piece.first; lane < piece.first + piece.count; ++lane, from += piece.stride)
        rows[at][lane] = to_slot<M>(read<M>(from));
    }
  });
}

// A kernel parameter at a fixed place: the same for all lanes.
template <class M, unsigned count>
void load_parameter(Execution& run, const Instruction& i, std::uint32_t mask) {
  const std::byte* from = run.launch.parameters.data() + i.immediate;
  const Operand* list = run.kernel.operands.data() + i.list;
  for (unsigned at = 0; at < count; ++at) {
    const Operand row = count == 1 ? i.d : list[at];
    if (!row.exists()) continue;
    const M value = read<M>(from + at * sizeof(M));
    write_lanes<M>(run, row, mask, [&](std::uint32_t) { return value; });
  }
}

template <class M, unsigned count>
void store(Execution& run, const Instruction& i, std::uint32_t mask) {
  LaneAddresses addresses;
  const Space space = lane_addresses(run, i, mask, addresses);
  constexpr std::size_t kBytes = sizeof(M) * count;
  const Use use = i.strong ? Use::strong_write : Use::write;
  if (space == Space::shared) run.shared_races.begin_instruction();
  if (run.statistics != nullptr) [[unlikely]]
    count_access(*run.statistics, {space, addresses, mask, kBytes, true});
  if ((i.sub & kReleases) != 0) run.block_races.fence();
  if (i.strong) acquire_lanes(run, space, addresses, mask, true);
  if (space == Space::global || space == Space::generic) run.has_changed_memory = true;

  const Operand* list = run.kernel.operands.data() + i.list;
  const Slot<M>* rows[count];
  for (unsigned at = 0; at < count; ++at) rows[at] = slots_of<M>(run, count == 1 ? i.d : list[at]);
  for_each_piece(run, space, addresses, mask, kBytes, use, [&](const Segment& piece) {
    if constexpr (count == 1 && sizeof(M) == sizeof(Slot<M>)) {
      if (piece.stride != 0) {
        std::memcpy(piece.memory, rows[0] + piece.first, piece.count * sizeof(M));
        return;
      }
    }
    for (unsigned at = 0; at < count; ++at) {
      std::byte* to = piece.memory + at * sizeof(M);
      for (std::uint32_t lane = piece.first; lane < piece.first + piece.count; ++lane, to += piece.stride) {
        const M value = from_slot<M>(rows[at][lane]);
        std::memcpy(to, &value, sizeof(M));
      }
    }
  });
}

// Between 32- and 64-bit registers, for accesses narrower than their register.
template <class To, class From>
void convert_row(Execution& run, const Instruction& i, std::uint32_t mask) {
  const auto a = lanes_of<From>(run, i.a);
  write_lanes<To>(run, i.d, mask, [&](std::uint32_t lane) { return static_cast<To>(a[lane]); });
}
constexpr Handler kExtendSigned = convert_row<std::int64_t, std::int32_t>;
constexpr Handler kExtendUnsigned = convert_row<std::uint64_t, std::uint32_t>;
constexpr Handler kTruncate = convert_row<std::uint32_t, std::uint64_t>;

enum class Kind { load, load_parameter, store };

template <Kind kind, class M>
Handler handler_of_count(unsigned count) {
  const auto choose = []<unsigned known>() -> Handler {
    if constexpr (kind == Kind::load) return load<M, known>;
    if constexpr (kind == Kind::load_parameter) return load_parameter<M, known>;
    return store<M, known>;
  };
  switch (count) {
    case 1:
      return choose.template operator()<1>();
    case 2:
      return choose.template operator()<2>();
    case 4:
      return choose.template operator()<4>();
    default:
      return nullptr;
  }
}

// Signs matter only for loads that are extended to a wider register.
template <Kind kind>
Handler handler_for(Type type, unsigned count) {
  switch (bytes_of(type)) {
    case 1:
      return is_signed(type) ? handler_of_count<kind, std::int8_t>(count) : handler_of_count<kind, std::uint8_t>(count);
    case 2:
      return is_signed(type) ? handler_of_count<kind, std::int16_t>(count)
                             : handler_of_count<kind, std::uint16_t>(count);
    case 4:
      return handler_of_count<kind, std::uint32_t>(count);
    case 8:
      return handler_of_count<kind, std::uint64_t>(count);
    default:
      return nullptr;
  }
}

unsigned take_count(Lowering& lowering) {
  return lowering.take("v2") ? 2 : lowering.take("v4") ? 4 : 1;
}

std::vector<std::span<const Token>> register_texts(Lowering& lowering, std::size_t index, unsigned count) {
  if (!lowering.is_vector(index)) {
    if (count != 1) lowering.unsupported("vector access without a vector");
    return {lowering.argument(index)};
  }
  auto texts = lowering.elements(index);
  if (texts.size() != count) lowering.unsupported("vector of another length");
  return texts;
}

// .param means the kernel's parameters, or a stretch of local memory inside an inlined function and around a call.
Space parameter_space(const MemoryArgument& address) {
  if (address.symbol == Symbol::Kind::call_slot) return Space::local;
  return address.symbol == Symbol::Kind::parameter ? Space::parameter : Space::generic;
}

struct Extension {  // of a narrow load to a 64-bit register
  Operand to, from;
};

void lower_ld(Lowering& lowering) {
  Instruction instruction = lowering.start();
  const MemoryModifiers modifiers = take_memory_modifiers(lowering, false);
  lowering.take("nc");  // a promise that nobody writes it: the race checks see it if someone does
  const unsigned count = take_count(lowering);
  const Type type = lowering.take_type();
  lowering.expect_arguments(2, 2);
  const MemoryArgument address = lowering.memory(1);
  instruction.space = modifiers.space == Space::parameter ? parameter_space(address) : modifiers.space;
  instruction.strong = modifiers.strong;
  instruction.sub = modifiers.acquire ? kAcquires : 0;
  instruction.count = static_cast<std::uint8_t>(count);
  instruction.bytes = static_cast<std::uint8_t>(bytes_of(type));

  std::vector<Operand> rows;
  std::vector<Extension> extensions;
  for (const auto text : register_texts(lowering, 0, count)) {
    const auto [row, declared] = lowering.any_width(text);
    if (lowering.is_sink(text)) {
      rows.emplace_back();
    } else if (row.exists() && bytes_of(declared) == 8 && bytes_of(type) < 8) {
      rows.push_back(lowering.new_register(Type::u32));
      extensions.push_back({row, rows.back()});
    } else {
      rows.push_back(lowering.destination(text, type));
    }
  }
  if (count == 1) {
    instruction.d = rows[0];
    if (!instruction.d.exists()) lowering.unsupported("load to nowhere");
  } else {
    instruction.list = lowering.operand_list(rows);
  }
  if (instruction.space == Space::parameter) {
    instruction.handler = handler_for<Kind::load_parameter>(type, count);
    instruction.immediate = static_cast<std::int64_t>(address.constant) + address.offset;
    const std::size_t end = static_cast<std::size_t>(instruction.immediate) + bytes_of(type) * count;
    if (instruction.immediate < 0 || end > lowering.kernel().parameter_bytes)
      lowering.unsupported("parameter out of bounds");
  } else {
    instruction.handler = handler_for<Kind::load>(type, count);
    set_address(lowering, instruction, address, bytes_of(type) * count);
  }
  if (instruction.handler == nullptr) lowering.unsupported(std::string("load of type .") + name_of(type));
  lowering.emit(instruction);
  for (const Extension& extension : extensions) {
    Instruction widen = lowering.start();
    widen.handler = is_signed(type) ? kExtendSigned : kExtendUnsigned;
    widen.d = extension.to;
    widen.a = extension.from;
    lowering.emit(widen);
  }
}

void lower_st(Lowering& lowering) {
  Instruction instruction = lowering.start();
  const MemoryModifiers modifiers = take_memory_modifiers(lowering, false);
  const unsigned count = take_count(lowering);
  const Type type = lowering.take_type();
  lowering.expect_arguments(2, 2);
  const MemoryArgument address = lowering.memory(0);
  instruction.space = modifiers.space == Space::parameter ? parameter_space(address) : modifiers.space;
  if (instruction.space == Space::parameter || modifiers.is_const) lowering.unsupported("store to constant memory");
  instruction.strong = modifiers.strong;
  instruction.sub = modifiers.release ? kReleases : 0;
  instruction.count = static_cast<std::uint8_t>(count);
  instruction.bytes = static_cast<std::uint8_t>(bytes_of(type));
  std::vector<Operand> rows;
  for (const auto text : register_texts(lowering, 1, count)) {
    const auto [row, declared] = lowering.any_width(text);
    if (row.exists() && bytes_of(declared) == 8 && bytes_of(type) < 8) {
      rows.push_back(lowering.new_register(Type::u32));
      Instruction narrow = lowering.start();
      narrow.handler = kTruncate;
      narrow.d = rows.back();
      narrow.a = row;
      lowering.emit(narrow);
    } else {
      rows.push_back(lowering.source(text, type));
    }
  }
  if (count == 1) {
    instruction.d = rows[0];
  } else {
    instruction.list = lowering.operand_list(rows);
  }
  set_address(lowering, instruction, address, bytes_of(type) * count);
  instruction.handler = handler_for<Kind::store>(type, count);
  if (instruction.handler == nullptr) lowering.unsupported(std::string("store of type .") + name_of(type));
  lowering.emit(instruction);
}

void do_nothing(Execution&, const Instruction&, std::uint32_t) {}

// A hint. Its address need not be valid.
void lower_prefetch(Lowering& lowering) {
  lowering.take_one_of({"global", "local", "const", "param"});
  if (lowering.take_one_of({"L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap"}) == 4)
    lowering.unsupported("modifier '.tensormap'");
  lowering.expect_arguments(1, 1);
  lowering.memory(0);
  Instruction instruction = lowering.start();
  instruction.handler = do_nothing;
  lowering.emit(instruction);
}

constexpr Family kFamily[] = {
    {"ld", lower_ld}, {"ldu", lower_ld}, {"st", lower_st}, {"prefetch", lower_prefetch}, {"prefetchu", lower_prefetch},
};

}  // namespace

std::span<const Family> memory_family() {
  return kFamily;
}

}  // namespace gpusim::ptx
