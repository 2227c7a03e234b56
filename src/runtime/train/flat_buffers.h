// The flat buffers of a model from outside: whole tensors in and out of them, also where every replica keeps only its
// part (ZeRO).
#pragma once

#include <span>
#include <vector>

#include "parallel/rank_groups.h"
#include "runtime/compiler/flat_layout.h"
#include "runtime/executor/executable.h"

namespace trifold {

class FlatBuffers {
 public:
  FlatBuffers(const FlatLayout& layout, const ModelMemory& memory, const RankGroups* ranks)
      : layout_(&layout), memory_(&memory), ranks_(ranks) {}

  // Whether what replicas hold must be put together. After an update that is so of gradients from stage 1 on.
  bool in_parts(Region region) const;

  // The whole of a buffer that begins at `base` of a region that is in parts, on the first replica; nothing on the
  // others. Every replica must call it.
  std::vector<float> gather(Region region, std::size_t base) const;
  // A parameter's elements, as they are laid out, to the buffer that begins at `base`: this replica's of them.
  void put(Region region, std::size_t base, int parameter, std::span<const float> values) const;

 private:
  std::vector<float> own_parts(Region region, std::size_t base) const;
  void place_parts(int replica, std::span<const float> parts, std::span<float> whole) const;

  const FlatLayout* layout_;
  const ModelMemory* memory_;
  const RankGroups* ranks_;
};

}  // namespace trifold
