// How numbers of a slice travel: as they are, in 16 bits, or only the largest with their places. What is left out or
// rounded away the sender keeps and adds to what it sends next (error feedback).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trifold {

enum class Coding : std::uint8_t { f32 = 0, f16 = 1, top_k = 2 };

struct CodecOptions {
  bool half = false;  // 16 bits a number
  double keep = 1;    // share of the numbers that is sent; 1: all
};

// Appends to `out`: an encoding says by itself what it is, and is a multiple of 4 bytes long. `left` (as long as
// `values`, or empty: nothing is kept) is added to the values first, and holds afterwards what was not said: exactly,
// but that numbers too large for 16 bits are said as the largest there is, and the rest of them is rounded as floats
// are. Numbers that are not finite count as the largest, and leave nothing. Where all numbers are shorter than the
// largest with their places, all are sent.
void encode(std::span<const float> values, std::span<float> left, const CodecOptions& options,
            std::vector<std::byte>& out);

// The most bytes that so many numbers take.
constexpr std::size_t encoded_bytes(std::size_t elements) {
  return 8 + 4 * elements;
}

// Fills `values` from exactly these bytes; what is not in them is 0. An Error says what is wrong with them: they may
// come from anybody.
void decode(std::span<const std::byte> bytes, std::span<float> values);

// Without a copy where the bytes are plain floats, as many and aligned; else null (decode says why).
const float* plain_floats(std::span<const std::byte> bytes, std::size_t elements);

}  // namespace trifold
