// Amounts of memory as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace trifold {

// What parse_byte_size() reads, for error messages.
inline constexpr std::string_view kByteSizes =
    "a number of bytes, or a text such as \"512MiB\" (B; kB, MB, GB, TB: powers of 1000; KiB, MiB, GiB, TiB: of 1024)";

// "8GB", "512 MiB", "1.5GB", "4096": bytes. kB (or KB), MB, GB, TB count by 1000; KiB, MiB, GiB, TiB by 1024.
std::optional<std::int64_t> parse_byte_size(std::string_view text);

}  // namespace trifold
