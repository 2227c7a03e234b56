#include "parallel/servers/slices/slice_places.h"

namespace trifold {

std::vector<SlicePlace> place_slices(const std::vector<ServedTensor>& tensors, const std::vector<Slice>& slices,
                                     const std::vector<std::string>& servers) {
  std::vector<RingItem> items;
  for (const Slice& slice : slices)
    items.push_back({name_of(slice, tensors), slice.elements() * static_cast<std::int64_t>(sizeof(float))});
  return place_on_ring(items, servers);
}

}  // namespace trifold
