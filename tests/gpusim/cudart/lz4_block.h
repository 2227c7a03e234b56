// Decompresses one LZ4 block (the raw format, without a frame), as nvcc packs PTX in some of its compression modes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace gpusim {

// Exactly `bytes` characters; throws std::runtime_error when the block is damaged.
std::string decompress_lz4_block(std::span<const std::byte> packed, std::size_t bytes);

}  // namespace gpusim
