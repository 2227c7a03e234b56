#include "runtime/data/memory_rows.h"

#include <algorithm>

#include "core/error.h"

namespace trifold {

MemoryRows::MemoryRows(MemoryRowsContent content) : content_(std::move(content)) {
  const std::int64_t elements = content_.shape.elements();
  TRIFOLD_CHECK(elements > 0 && std::ssize(content_.values) == size() * elements, "{} values for rows of {}",
                content_.values.size(), elements);
  TRIFOLD_CHECK(content_.target_width > 0 || std::ssize(content_.labels) == size(), "{} labels for {} rows",
                content_.labels.size(), size());
  TRIFOLD_CHECK(std::ssize(content_.targets) == size() * content_.target_width, "{} targets for {} rows of {}",
                content_.targets.size(), size(), content_.target_width);
}

std::string MemoryRows::origin(std::int64_t index) const {
  if (content_.lines.empty()) return content_.name;
  return fmt::format("{}:{}", content_.name, content_.lines[static_cast<std::size_t>(index)]);
}

void MemoryRows::read_pixels(std::int64_t index, RandomSequence*, std::span<float> out) const {
  copy_row(content_.values, content_.shape.elements(), index, out);
}

void MemoryRows::read_targets(std::int64_t index, std::span<float> out) const {
  copy_row(content_.targets, content_.target_width, index, out);
}

void MemoryRows::copy_row(const std::vector<float>& rows, std::int64_t width, std::int64_t index,
                          std::span<float> out) const {
  TRIFOLD_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
  TRIFOLD_CHECK(std::ssize(out) == width, "{} values wanted of {}", out.size(), width);
  std::copy_n(rows.data() + index * width, width, out.data());
}

}  // namespace trifold
