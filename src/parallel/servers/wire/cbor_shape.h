// Looks over CBOR that may come from anybody before it is parsed: the parser descends as deep as the bytes ask for.
#pragma once

#include <cstddef>
#include <span>

namespace trifold {

inline constexpr std::size_t kDeepestFields = 16;
inline constexpr std::size_t kMostFieldValues = 500'000;

// What is wrong, or null: the bytes are one value of the forms that our own writer makes (lengths given in advance, no
// tags, no byte strings, text in UTF-8), not nested too deep and not of too many values.
const char* fault_of_cbor(std::span<const std::byte> bytes);

}  // namespace trifold
