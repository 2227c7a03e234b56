#include "insight/compare/memory_use.h"

#include <algorithm>
#include <numeric>

#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"

namespace trifold {
namespace {

// Bytes of a mapping (which begins on a page) that the system has given memory to.
std::size_t touched_bytes(std::byte* begin, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  if (::mincore(begin, bytes, pages.data()) != 0) fail_runtime("cannot see which memory is in use");
  std::size_t touched = 0;
  for (std::size_t i = 0; i < pages.size(); ++i)
    if ((pages[i] & 1) != 0) touched += std::min(page, bytes - i * page);
  return touched;
}

std::size_t sum_of_regions(const std::array<std::size_t, kRegions>& regions) {
  return std::accumulate(regions.begin(), regions.end(), std::size_t{0});
}

}  // namespace

std::size_t MemoryUse::planned_bytes() const {
  return sum_of_regions(planned);
}

std::size_t MemoryUse::found_bytes() const {
  return sum_of_regions(found);
}

MemoryUse memory_use(const ParallelModel& model, int rank) {
  MemoryUse use;
  for (const auto& chunk : model.chunks(rank)) {
    const ModelMemory& memory = chunk->memory();
    for (std::size_t i = 0; i < kRegions; ++i) {
      const auto region = static_cast<Region>(i);
      const std::size_t taken = chunk->training().program().memory.bytes(region);
      use.planned[i] += taken;
      if (taken > 0)
        use.found[i] += memory.device().host_memory() ? touched_bytes(memory.region(region), taken) : taken;
    }
  }
  return use;
}

}  // namespace trifold
