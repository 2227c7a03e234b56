// Base64 (RFC 4648, with padding), for bytes inside JSON. None of the libraries that Trifold links has it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trifold {

std::string to_base64(std::span<const std::byte> bytes);

// The bytes, as a text; null: this is no base64.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace trifold
