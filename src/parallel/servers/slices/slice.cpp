// Cuts tensors into slices of nearly equal length.
#include "parallel/servers/slices/slice.h"

#include <algorithm>

#include "core/error.h"

namespace trifold {
namespace {

// With 8 servers some 64 slices each: consistent hashing then keeps loads and moves near their ideal.
constexpr std::int64_t kSlicesOfAModel = 512;
constexpr std::int64_t kShortestLimit = 512;

}  // namespace

std::int64_t slice_limit(const std::vector<ServedTensor>& tensors) {
  std::int64_t elements = 0;
  for (const ServedTensor& tensor : tensors) elements += tensor.elements;
  return std::clamp((elements + kSlicesOfAModel - 1) / kSlicesOfAModel, kShortestLimit, kSliceElements);
}

std::vector<Slice> cut_into_slices(const std::vector<ServedTensor>& tensors, std::int64_t largest) {
  TRIFOLD_CHECK(largest >= 0, "slices of {} elements", largest);
  if (largest == 0) largest = slice_limit(tensors);
  std::vector<Slice> slices;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t elements = tensors[i].elements;
    TRIFOLD_CHECK(elements >= 0, "'{}' has {} elements", tensors[i].name, elements);
    const std::int64_t parts = elements / largest + (elements % largest != 0 ? 1 : 0);
    const std::int64_t length = parts > 0 ? elements / parts : 0;
    const std::int64_t longer = parts > 0 ? elements % parts : 0;  // so many slices have one element more
    std::int64_t begin = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t end = begin + length + (part < longer ? 1 : 0);
      slices.push_back({static_cast<int>(i), begin, end});
      begin = end;
    }
  }
  return slices;
}

std::string name_of(const Slice& slice, const std::vector<ServedTensor>& tensors) {
  return fmt::format("{}[{}:{}]", tensors.at(static_cast<std::size_t>(slice.tensor)).name, slice.begin, slice.end);
}

}  // namespace trifold
