#include "runtime/data/memory_images.h"

#include <algorithm>

#include "core/error.h"

namespace trifold {

MemoryImages::MemoryImages(MemoryImagesContent content) : content_(std::move(content)) {
  TRIFOLD_CHECK(static_cast<std::int64_t>(content_.pixels.size()) == size() * content_.shape.elements(),
                "{} bytes of pixels for {} images of {}", content_.pixels.size(), size(), to_string(content_.shape));
  TRIFOLD_CHECK(!content_.origins.empty() && content_.origins.front().first_sample == 0, "samples without an origin");
}

std::string MemoryImages::origin(std::int64_t index) const {
  const auto after = std::upper_bound(content_.origins.begin(), content_.origins.end(), index,
                                      [](std::int64_t value, const ImageOrigin& o) { return value < o.first_sample; });
  return std::prev(after)->name;
}

void MemoryImages::read_pixels(std::int64_t index, RandomSequence*, std::span<std::uint8_t> out) const {
  TRIFOLD_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
  const std::int64_t elements = content_.shape.elements();
  TRIFOLD_CHECK(static_cast<std::int64_t>(out.size()) == elements, "{} pixels wanted of {}", out.size(), elements);
  std::copy_n(content_.pixels.data() + index * elements, elements, out.data());
}

}  // namespace trifold
