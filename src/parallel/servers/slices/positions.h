// Where the numbers of a top-k encoding belong, in few bytes: gaps as varints (7 bits a byte, the lowest first; the
// first position as it is, then the number of positions left out in between, so none can come twice) or a bit a
// position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trifold {

std::size_t gaps_size(std::span<const std::uint32_t> positions);
std::size_t bitmap_size(std::size_t elements);

// Positions rise.
void append_gaps(std::span<const std::uint32_t> positions, std::vector<std::byte>& out);
void append_bitmap(std::span<const std::uint32_t> positions, std::size_t elements, std::vector<std::byte>& out);

// Fills `positions`, all below `elements` and rising, and returns the bytes that follow them. An Error says what is
// wrong.
std::span<const std::byte> read_gaps(std::span<const std::byte> bytes, std::size_t elements,
                                     std::span<std::uint32_t> positions);
std::span<const std::byte> read_bitmap(std::span<const std::byte> bytes, std::size_t elements,
                                       std::span<std::uint32_t> positions);

}  // namespace trifold
