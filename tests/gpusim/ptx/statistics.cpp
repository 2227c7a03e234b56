// Counting of sectors and bank conflicts.
#include "ptx/statistics.h"

#include <algorithm>
#include <array>
#include <bit>

#include "ptx/lanes.h"

namespace gpusim::ptx {
namespace {

constexpr std::size_t kSectorBytes = 32;
constexpr std::size_t kBanks = 32;

std::uint64_t count_sectors(const WarpAccess& access) {
  std::array<std::uint64_t, 2 * kLanes>
      sectors{};  // an access of 16 bytes, aligned, lies in one; others in two at most
  std::size_t count = 0;
  for_each_lane(access.mask, [&](std::uint32_t lane) {
    if (space_of(access.addresses.lane[lane]) != Space::global) return;
    sectors[count++] = access.addresses.lane[lane] / kSectorBytes;
    const std::uint64_t last = (access.addresses.lane[lane] + access.bytes - 1) / kSectorBytes;
    if (last != sectors[count - 1]) sectors[count++] = last;
  });
  std::sort(sectors.begin(), sectors.begin() + static_cast<std::ptrdiff_t>(count));
  return static_cast<std::uint64_t>(std::unique(sectors.begin(), sectors.begin() + static_cast<std::ptrdiff_t>(count)) -
                                    sectors.begin());
}

// Passes beyond the first of the lanes [begin, end).
std::uint64_t count_conflicts(const WarpAccess& access, std::uint32_t begin, std::uint32_t end) {
  std::array<std::uint64_t, kLanes * 4> words{};
  std::size_t count = 0;
  for (std::uint32_t lane = begin; lane < end; ++lane) {
    if ((access.mask >> lane & 1U) == 0) continue;
    const std::uint64_t first = access.addresses.lane[lane] / 4;
    const std::uint64_t last = (access.addresses.lane[lane] + access.bytes - 1) / 4;
    for (std::uint64_t word = first; word <= last; ++word) words[count++] = word;
  }
  std::sort(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count));
  const auto end_of_words = std::unique(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count));
  std::array<std::uint64_t, kBanks> per_bank{};
  for (auto word = words.begin(); word != end_of_words; ++word) ++per_bank[*word % kBanks];
  const std::uint64_t passes = *std::max_element(per_bank.begin(), per_bank.end());
  return passes > 1 ? passes - 1 : 0;
}

}  // namespace

void count_access(GpusimLaunch& launch, const WarpAccess& access) {
  if (access.space == Space::shared) {
    ++launch.shared_accesses;
    const auto lanes_at_once = static_cast<std::uint32_t>(kLanes * 4 / std::max<std::size_t>(access.bytes, 4));
    for (std::uint32_t begin = 0; begin < kLanes; begin += lanes_at_once)
      launch.shared_conflicts += count_conflicts(access, begin, begin + lanes_at_once);
  } else if (access.space == Space::global || access.space == Space::generic) {
    std::uint64_t lanes = 0;
    for_each_lane(access.mask,
                  [&](std::uint32_t lane) { lanes += space_of(access.addresses.lane[lane]) == Space::global ? 1 : 0; });
    (access.is_write ? launch.global_write_bytes : launch.global_read_bytes) += lanes * access.bytes;
    (access.is_write ? launch.global_write_sectors : launch.global_read_sectors) += count_sectors(access);
  }
}

void count_atomics(GpusimLaunch& launch, std::uint32_t mask) {
  launch.atomics += static_cast<std::uint64_t>(std::popcount(mask));
}

}  // namespace gpusim::ptx
