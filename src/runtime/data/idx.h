// The IDX format of MNIST and its relatives (big-endian extents, then bytes), plain or gzip-compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/data/dataset.h"

namespace trifold {

struct IdxArray {
  std::vector<std::int64_t> extents;  // outermost first, one to four
  std::vector<std::uint8_t> values;
};

// Parses one IDX file of unsigned bytes. `name` is what messages call it.
IdxArray parse_idx(std::span<const std::byte> bytes, std::string_view name);

// Opens <folder>/train-images-idx3-ubyte[.gz] with its labels, or the t10k- pair for the test split.
std::unique_ptr<Dataset> open_idx(const std::filesystem::path& folder, Split split);

}  // namespace trifold
