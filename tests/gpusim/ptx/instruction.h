// A lowered instruction: one handler that executes it for the lanes of a mask, and where its operands lie. Immediates
// and special registers are operands like any other (a row of 32 equal lanes), so that handlers need no cases.
#pragma once

#include <cstdint>
#include <string_view>

#include "ptx/tokens.h"

namespace gpusim::ptx {

struct Execution;
struct Instruction;
using Handler = void (*)(Execution&, const Instruction&, std::uint32_t mask);

// A row of 32 lanes (4 or 8 bytes each) in one of two pools: the warp's registers, or the launch's constants.
struct Operand {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t bits = kNone;  // byte offset * 2 + pool

  bool exists() const { return bits != kNone; }
  std::uint32_t pool() const { return bits & 1; }
  std::uint32_t offset() const { return bits >> 1; }
  static Operand in_registers(std::uint32_t offset) { return {offset << 1}; }
  static Operand in_constants(std::uint32_t offset) { return {offset << 1 | 1}; }
  bool operator==(const Operand&) const = default;
};

// A mask of 32 lanes in the warp's predicates; the first is always true.
struct Predicate {
  std::uint16_t index = 0;
  bool exists = false;
  bool negated = false;
};

enum class Control : std::uint8_t { none, branch, branch_table, exit, barrier, warp_sync, trap };

enum class Space : std::uint8_t { generic, global, shared, local, parameter };

enum class Rounding : std::uint8_t { nearest, zero, down, up };

struct Instruction {
  Handler handler = nullptr;
  Operand d, a, b, c;
  std::int64_t immediate = 0;    // offset of an address, table of lop3, ...
  std::uint32_t target = 0;      // of a branch; of warp_sync: the bits of the operand that holds the member mask
  std::uint32_t list = 0;        // first of its further operands in PtxKernel::operands
  std::uint32_t guard_flip = 0;  // all ones: runs where the guard is false
  std::uint16_t guard = 0;       // predicate; 0 is always true
  Control control = Control::none;
  Space space = Space::generic;
  Predicate p, q, source;  // p and q are written, `source` is read
  std::uint8_t count = 1;  // elements of a vector access
  std::uint8_t sub = 0;    // which operation, where one handler serves several
  std::uint8_t bytes = 0;  // of one element in memory
  Rounding rounding = Rounding::nearest;
  bool flush = false;           // .ftz
  bool saturate = false;        // .sat
  bool strong = false;          // volatile or atomic: does not race with atomics
  bool narrow_address = false;  // the address register has 32 bits
};

// Where an instruction came from, for reports and coverage.
struct Origin {
  std::string_view text;
  int ptx_line = 0;
  SourceLine source;
};

}  // namespace gpusim::ptx
