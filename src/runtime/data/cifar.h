// The binary version of CIFAR-10 and CIFAR-100: records of one label byte (CIFAR-100: coarse, then fine) and 3x32x32
// pixels. CIFAR-100 gives its fine labels.
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

enum class CifarKind { cifar10, cifar100 };

struct CifarRecords {
  std::vector<std::uint8_t> labels;  // [N]
  std::vector<std::uint8_t> pixels;  // [N, 3, 32, 32]
};

// Parses one file of records, of which there may be any number but none.
CifarRecords parse_cifar(std::span<const std::byte> bytes, std::string_view name, CifarKind kind);

// Opens data_batch_1..5.bin / test_batch.bin, or train.bin / test.bin, in `folder` or in the folder the official
// archive unpacks to inside it.
std::unique_ptr<Dataset> open_cifar(const std::filesystem::path& folder, Split split, CifarKind kind);

}  // namespace trifold
