// mma.sync (m16n8 with f16, bf16 or tf32 factors) and ldmatrix. Products are summed in double and rounded once, which
// is at least as exact as a tensor core; its own order and truncation are not documented.
#include <array>
#include <bit>
#include <cstring>

#include "ptx/lanes.h"
#include "ptx/location.h"
#include "ptx/lowering.h"
#include "ptx/memory_access.h"
#include "ptx/statistics.h"

namespace gpusim::ptx {
namespace {

constexpr std::size_t kRows = 16;
constexpr std::size_t kColumns = 8;
constexpr std::size_t kDeepest = 16;

enum class Factor : std::uint8_t { f16, bf16, tf32 };

float half_at(std::uint32_t bits, std::size_t which, Factor factor) {
  const auto half_bits = static_cast<std::uint16_t>(bits >> (16 * which));
  if (factor == Factor::bf16) return std::bit_cast<float>(std::uint32_t{half_bits} << 16);
  Half value;
  value.bits = half_bits;
  return static_cast<float>(value);
}
float tf32_at(std::uint32_t bits) {
  return std::bit_cast<float>(bits & ~0x1fffU);
}

void require_all_lanes(const Execution& run, std::uint32_t mask, const char* what) {
  if (mask == kAllLanes) return;
  fail(run, Finding::invalid_call, static_cast<std::uint32_t>(std::countr_zero(mask)),
       std::string(what) + " executed by only some lanes of a warp");
}

struct Matrices {
  std::array<std::array<float, kDeepest>, kRows> a{};
  std::array<std::array<float, kColumns>, kDeepest> b{};
};

// Registers of A: pairs of rows (group, group + 8) for each half of the depth; of B: one for each half.
template <Factor factor>
void gather(Execution& run, const Operand* a, const Operand* b, std::size_t depth, Matrices& matrices) {
  constexpr std::size_t kStep = factor == Factor::tf32 ? 4 : 8;  // depth that one register of B covers
  for (std::size_t part = 0; part * kStep < depth; ++part) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      const std::size_t group = lane / 4;
      const std::size_t within = lane % 4;
      const std::uint32_t upper = lanes_of<std::uint32_t>(run, a[2 * part])[lane];
      const std::uint32_t lower = lanes_of<std::uint32_t>(run, a[2 * part + 1])[lane];
      const std::uint32_t right = lanes_of<std::uint32_t>(run, b[part])[lane];
      if constexpr (factor == Factor::tf32) {
        const std::size_t k = part * kStep + within;
        matrices.a[group][k] = tf32_at(upper);
        matrices.a[group + 8][k] = tf32_at(lower);
        matrices.b[k][group] = tf32_at(right);
      } else {
        for (std::size_t which = 0; which < 2; ++which) {
          const std::size_t k = part * kStep + 2 * within + which;
          matrices.a[group][k] = half_at(upper, which, factor);
          matrices.a[group + 8][k] = half_at(lower, which, factor);
          matrices.b[k][group] = half_at(right, which, factor);
        }
      }
    }
  }
}

// Operands in the list: d, a, b, c. `count`: depth.
template <Factor factor, bool half_accumulator>
void multiply(Execution& run, const Instruction& i, std::uint32_t mask) {
  require_all_lanes(run, mask, "mma");
  const std::size_t depth = i.count;
  const std::size_t accumulators = half_accumulator ? 2 : 4;
  const std::size_t parts = depth / (factor == Factor::tf32 ? 4 : 8);
  const Operand* d = run.kernel.operands.data() + i.list;
  const Operand* a = d + accumulators;
  const Operand* b = a + 2 * parts;
  const Operand* c = b + parts;
  Matrices matrices;
  gather<factor>(run, a, b, depth, matrices);
  std::array<std::array<std::uint32_t, kLanes>, 4> results{};
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t at = 0; at < 4; ++at) {
      const std::size_t row = lane / 4 + (at >= 2 ? 8 : 0);
      const std::size_t column = lane % 4 * 2 + at % 2;
      double sum = 0;
      if constexpr (half_accumulator) {
        sum = half_at(lanes_of<std::uint32_t>(run, c[at / 2])[lane], at % 2, Factor::f16);
      } else {
        sum = lanes_of<float>(run, c[at])[lane];
      }
      for (std::size_t k = 0; k < depth; ++k) sum += static_cast<double>(matrices.a[row][k]) * matrices.b[k][column];
      if constexpr (half_accumulator) {
        results[at / 2][lane] |= std::uint32_t{Half(round_to_odd(sum)).bits} << (16 * (at % 2));
      } else {
        results[at][lane] = std::bit_cast<std::uint32_t>(static_cast<float>(sum));
      }
    }
  }
  for (std::size_t at = 0; at < accumulators; ++at)
    blend(slots_of<std::uint32_t>(run, d[at]), results[at].data(), kAllLanes);
}

void append(Lowering& lowering, std::vector<Operand>& list, std::size_t index, std::size_t count, bool writes) {
  const auto texts = lowering.elements(index);
  if (texts.size() != count) lowering.unsupported("number of registers of a matrix");
  for (const auto text : texts)
    list.push_back(writes ? lowering.destination(text, Type::b32) : lowering.source(text, Type::b32));
}

void lower_mma(Lowering& lowering) {
  if (!lowering.take("sync") || !lowering.take("aligned")) lowering.unsupported("mma without .sync.aligned");
  const int shape = lowering.take_one_of({"m16n8k4", "m16n8k8", "m16n8k16"});
  if (shape < 0) lowering.unsupported("this shape of mma");
  if (!lowering.take("row") || !lowering.take("col")) lowering.unsupported("layout of mma");
  const Type d = lowering.take_type();
  const Type a = lowering.take_type();
  const Type b = lowering.take_type();
  const Type c = lowering.take_type();
  const std::size_t depth = std::size_t{4} << shape;
  const bool half_accumulator = d == Type::f16;
  const bool is_tf32 = a == Type::tf32;
  if (a != b || c != d || (d != Type::f32 && !(half_accumulator && a == Type::f16)))
    lowering.unsupported("types of mma");
  if (is_tf32 ? depth > 8 : depth < 8) lowering.unsupported("this shape of mma for these types");
  Instruction instruction = lowering.start();
  if (a == Type::f16) {
    instruction.handler = half_accumulator ? multiply<Factor::f16, true> : multiply<Factor::f16, false>;
  } else if (a == Type::bf16) {
    instruction.handler = multiply<Factor::bf16, false>;
  } else if (is_tf32) {
    instruction.handler = multiply<Factor::tf32, false>;
  } else {
    lowering.unsupported(std::string("mma of type .") + name_of(a));
  }
  lowering.expect_arguments(4, 4);
  const std::size_t accumulators = half_accumulator ? 2 : 4;
  const std::size_t parts = depth / (is_tf32 ? 4 : 8);
  std::vector<Operand> list;
  append(lowering, list, 0, accumulators, true);
  append(lowering, list, 1, 2 * parts, false);
  append(lowering, list, 2, parts, false);
  append(lowering, list, 3, accumulators, false);
  instruction.list = lowering.operand_list(list);
  instruction.count = static_cast<std::uint8_t>(depth);
  lowering.emit(instruction);
}

// `count` 8x8 matrices; lane 8m + r holds the address of row r of matrix m. sub 1: transposed.
void load_matrices(Execution& run, const Instruction& i, std::uint32_t mask) {
  require_all_lanes(run, mask, "ldmatrix");
  LaneAddresses addresses;
  const std::uint32_t used = i.count == 4 ? kAllLanes : (1U << (8 * i.count)) - 1;
  const Space space = lane_addresses(run, i, used, addresses);
  run.shared_races.begin_instruction();
  if (run.statistics != nullptr) [[unlikely]]
    count_access(*run.statistics, {space, addresses, used, 16, false});
  const Operand* list = run.kernel.operands.data() + i.list;
  for (std::uint32_t matrix = 0; matrix < i.count; ++matrix) {
    std::array<std::array<std::uint16_t, 8>, 8> values;
    for (std::uint32_t row = 0; row < 8; ++row) {
      const std::uint32_t lane = matrix * 8 + row;
      std::memcpy(values[row].data(), lane_memory(run, lane, space, addresses.lane[lane], 16, Use::read), 16);
    }
    write_lanes<std::uint32_t>(run, list[matrix], kAllLanes, [&](std::uint32_t lane) {
      const std::size_t major = lane / 4;
      const std::size_t minor = lane % 4 * 2;
      const std::uint32_t low = i.sub == 1 ? values[minor][major] : values[major][minor];
      const std::uint32_t high = i.sub == 1 ? values[minor + 1][major] : values[major][minor + 1];
      return low | high << 16;
    });
  }
}

void lower_ldmatrix(Lowering& lowering) {
  if (!lowering.take("sync") || !lowering.take("aligned") || !lowering.take("m8n8"))
    lowering.unsupported("this form of ldmatrix");
  const int number = lowering.take_one_of({"x1", "x2", "x4"});
  if (number < 0) lowering.unsupported("ldmatrix without .x1, .x2 or .x4");
  Instruction instruction = lowering.start();
  instruction.sub = lowering.take("trans") ? 1 : 0;
  instruction.space = lowering.take_one_of({"shared", "shared::cta"}) >= 0 ? Space::shared : Space::generic;
  if (lowering.take_type() != Type::b16) lowering.unsupported("type of ldmatrix");
  lowering.expect_arguments(2, 2);
  instruction.count = static_cast<std::uint8_t>(1 << number);
  instruction.handler = load_matrices;
  std::vector<Operand> list;
  append(lowering, list, 0, instruction.count, true);
  instruction.list = lowering.operand_list(list);
  const MemoryArgument address = lowering.memory(1);
  instruction.a = address.address;
  instruction.narrow_address = address.is_narrow;
  instruction.immediate = address.offset;
  lowering.emit(instruction);
}

constexpr Family kFamily[] = {{"mma", lower_mma}, {"ldmatrix", lower_ldmatrix}};

}  // namespace

std::span<const Family> matrix_family() {
  return kFamily;
}

}  // namespace gpusim::ptx
