// CRC-32C (Castagnoli), as TensorBoard's event files need it. Debian has no C or C++ library for it.
#pragma once

#include <cstdint>
#include <string_view>

namespace trifold {

std::uint32_t crc32c(std::string_view bytes);

}  // namespace trifold
