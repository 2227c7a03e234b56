#include "core/dummy_memory.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace trifold {

AlignedMemory dummy_memory(std::size_t bytes) {
  AlignedMemory memory(std::max<std::size_t>(bytes, 64));
  std::array<float, 7 * 1024> pattern;
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = 0.1f * static_cast<float>(i % 7) - 0.25f;
  for (std::size_t done = 0; done < bytes; done += sizeof(pattern))
    std::memcpy(memory.data() + done, pattern.data(), std::min(sizeof(pattern), bytes - done));
  return memory;
}

}  // namespace trifold
