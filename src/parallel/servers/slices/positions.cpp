// Positions as varints of their gaps, or as a bitmap.
#include "parallel/servers/slices/positions.h"

#include <bit>

#include "core/error.h"

namespace trifold {
namespace {

constexpr int kLongestVarint = 5;  // bytes of a 32-bit number

template <class Each>
void for_each_gap(std::span<const std::uint32_t> positions, Each&& each) {
  std::uint32_t next = 0;  // the least that the position can be
  for (const std::uint32_t position : positions) {
    each(position - next);
    next = position + 1;
  }
}

}  // namespace

std::size_t gaps_size(std::span<const std::uint32_t> positions) {
  std::size_t bytes = 0;
  for_each_gap(positions, [&](std::uint32_t gap) {
    for (++bytes; gap >= 128; gap >>= 7) ++bytes;
  });
  return bytes;
}

std::size_t bitmap_size(std::size_t elements) {
  return (elements + 7) / 8;
}

void append_gaps(std::span<const std::uint32_t> positions, std::vector<std::byte>& out) {
  for_each_gap(positions, [&](std::uint32_t gap) {
    for (; gap >= 128; gap >>= 7) out.push_back(static_cast<std::byte>((gap & 127u) | 128u));
    out.push_back(static_cast<std::byte>(gap));
  });
}

void append_bitmap(std::span<const std::uint32_t> positions, std::size_t elements, std::vector<std::byte>& out) {
  const std::size_t start = out.size();
  out.resize(start + bitmap_size(elements), std::byte{0});
  for (const std::uint32_t position : positions) out[start + position / 8] |= std::byte{1} << (position % 8);
}

std::span<const std::byte> read_gaps(std::span<const std::byte> bytes, std::size_t elements,
                                     std::span<std::uint32_t> positions) {
  std::size_t at = 0;
  std::uint64_t next = 0;
  for (std::uint32_t& position : positions) {
    std::uint64_t gap = 0;
    for (int i = 0;; ++i) {
      if (at == bytes.size()) fail_input("an encoding that ends within its positions");
      if (i == kLongestVarint) fail_input("an encoding with a position that is no number");
      const auto byte = std::to_integer<std::uint64_t>(bytes[at++]);
      gap |= (byte & 127u) << (7 * i);
      if (byte < 128) break;
    }
    next += gap;
    if (next >= elements) fail_input("an encoding with position {} in a slice of {}", next, elements);
    position = static_cast<std::uint32_t>(next++);
  }
  return bytes.subspan(at);
}

std::span<const std::byte> read_bitmap(std::span<const std::byte> bytes, std::size_t elements,
                                       std::span<std::uint32_t> positions) {
  const std::size_t size = bitmap_size(elements);
  if (bytes.size() < size) fail_input("an encoding that ends within its positions");
  std::size_t found = 0;
  for (std::size_t i = 0; i < size; ++i) {
    for (auto bits = std::to_integer<unsigned>(bytes[i]); bits != 0; bits &= bits - 1) {
      const std::size_t position = 8 * i + static_cast<std::size_t>(std::countr_zero(bits));
      if (position >= elements) fail_input("an encoding with position {} in a slice of {}", position, elements);
      if (found == positions.size()) fail_input("an encoding of {} numbers with more positions", found);
      positions[found++] = static_cast<std::uint32_t>(position);
    }
  }
  if (found < positions.size()) fail_input("an encoding of {} numbers with {} positions", positions.size(), found);
  return bytes.subspan(size);
}

}  // namespace trifold
