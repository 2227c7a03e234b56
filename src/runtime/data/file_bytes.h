// A whole file in memory, and a gzip stream unpacked: what the parsers read. Both throw Error and name the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace trifold {

std::vector<std::byte> read_file(const std::filesystem::path& path);

bool is_gzip(std::span<const std::byte> bytes);

struct Unpacked {
  std::vector<std::byte> bytes;
  bool complete = false;  // the stream ended within the limit
};

// Unpacks at most `limit_bytes`; memory grows with what the stream really holds. A stream that is damaged, or that
// breaks off before either its end or the limit, is an Error.
Unpacked unpack_gzip(std::span<const std::byte> bytes, std::string_view name, std::size_t limit_bytes);

}  // namespace trifold
