// assert() in a kernel.
#include "ptx/assertion.h"

#include <bit>
#include <cstring>

#include "ptx/location.h"
#include "ptx/memory_access.h"

namespace gpusim::ptx {

void fail_assertion(Execution& run, const Instruction& instruction, std::uint32_t mask) {
  const auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
  std::uint64_t at = 0;
  std::memcpy(&at,
              lane_memory(run, lane, Space::local, static_cast<std::uint64_t>(instruction.immediate), 8, Use::read), 8);
  std::string message;
  for (char c = 1; message.size() < 512; ++at) {
    std::memcpy(&c, lane_memory(run, lane, Space::generic, at, 1, Use::read), 1);
    if (c == '\0') break;
    message += c;
  }
  fail(run, Finding::invalid_call, lane, "device assertion failed: " + message);
}

}  // namespace gpusim::ptx
