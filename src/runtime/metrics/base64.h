// Base64 (RFC 4648, with padding), for pictures inside JSON. None of the libraries that Trifold links has it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace trifold {

std::string to_base64(std::span<const std::byte> bytes);

}  // namespace trifold
