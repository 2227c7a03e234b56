#include "parallel/tensor/shard.h"

#include <algorithm>

#include "core/error.h"

namespace trifold {
namespace {

// The shard is one piece of each of `count` equal stretches of the whole.
struct Pieces {
  std::int64_t count = 1;
  std::int64_t stretch = 0;
  std::int64_t piece = 0;
  std::int64_t offset = 0;
};

Pieces pieces_of(const Shape& shape, const Shard& shard) {
  if (shard.dim < 0) return {1, shape.elements(), shape.elements(), 0};
  TRIFOLD_CHECK(shape[shard.dim] % shard.count == 0, "{} parts of {}", shard.count, shape[shard.dim]);
  if (shard.columns > 1) {
    TRIFOLD_CHECK(shard.dim == 0 && shape.rank() == 2 && shape[1] % shard.columns == 0, "{} columns of {}",
                  shard.columns, to_string(shape));
    Pieces rows{.count = shape[0] / shard.count, .stretch = shape[1], .piece = shape[1] / shard.columns};
    rows.offset = shard.index * rows.count * rows.stretch + shard.column * rows.piece;
    return rows;
  }
  Pieces pieces;
  for (int dim = 0; dim < shard.dim; ++dim) pieces.count *= shape[dim];
  pieces.stretch = shape.elements() / pieces.count;
  pieces.piece = pieces.stretch / shard.count;
  pieces.offset = shard.index * pieces.piece;
  return pieces;
}

}  // namespace

std::vector<float> take_shard(std::span<const float> whole, const Shape& shape, const Shard& shard) {
  const Pieces pieces = pieces_of(shape, shard);
  std::vector<float> part(static_cast<std::size_t>(pieces.count * pieces.piece));
  for (std::int64_t i = 0; i < pieces.count; ++i)
    std::copy_n(whole.begin() + i * pieces.stretch + pieces.offset, pieces.piece, part.begin() + i * pieces.piece);
  return part;
}

void put_shard(std::span<const float> part, const Shape& shape, const Shard& shard, std::span<float> whole) {
  const Pieces pieces = pieces_of(shape, shard);
  for (std::int64_t i = 0; i < pieces.count; ++i)
    std::copy_n(part.begin() + i * pieces.piece, pieces.piece, whole.begin() + i * pieces.stretch + pieces.offset);
}

std::vector<std::uint32_t> indices_of_shard(const Shape& shape, const Shard& shard) {
  const Pieces pieces = pieces_of(shape, shard);
  std::vector<std::uint32_t> indices;
  indices.reserve(static_cast<std::size_t>(pieces.count * pieces.piece));
  for (std::int64_t i = 0; i < pieces.count; ++i)
    for (std::int64_t k = 0; k < pieces.piece; ++k)
      indices.push_back(static_cast<std::uint32_t>(i * pieces.stretch + pieces.offset + k));
  return indices;
}

}  // namespace trifold
