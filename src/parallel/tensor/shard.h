// Parts of a tensor in row-major order, and the whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/shape.h"
#include "layers/split.h"

namespace trifold {

// The shard's elements of `whole`, which has shape `shape`.
std::vector<float> take_shard(std::span<const float> whole, const Shape& shape, const Shard& shard);
// The shard's elements to their places in `whole`.
void put_shard(std::span<const float> part, const Shape& shape, const Shard& shard, std::span<float> whole);

// Where the shard's elements are in the whole, which has shape `shape`.
std::vector<std::uint32_t> indices_of_shard(const Shape& shape, const Shard& shard);

}  // namespace trifold
