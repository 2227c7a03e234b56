// Which split among tensor ranks a layer gets: the plan's rule for it, or the one that exchanges least. What cannot be
// is refused with what would work.
#pragma once

#include <functional>
#include <span>

#include "layers/network.h"
#include "parallel/tensor/placement.h"

namespace trifold {

struct SplitQuestion {
  const LayerSpec& spec;
  const Layer& layer;               // whole
  std::span<const Shape> in;        // whole
  std::span<const Placement> come;  // how the inputs lie
  std::optional<LayerSplit> named;
  int parts = 1;
  // Whether all that read the layer, beyond layers that are local to channels, are products.
  std::function<bool()> is_read_by_products;
};

LayerSplit choose_split(const SplitQuestion& question);

}  // namespace trifold
