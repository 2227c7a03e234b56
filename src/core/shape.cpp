#include "core/shape.h"

#include "core/error.h"

namespace trifold {

Shape::Shape(std::initializer_list<std::int64_t> dims) {
  for (const std::int64_t extent : dims) push_back(extent);
}

void Shape::push_back(std::int64_t extent) {
  TRIFOLD_CHECK(rank_ < kMaxRank, "a shape has at most {} dims", kMaxRank);
  dims_[static_cast<std::size_t>(rank_++)] = extent;
}

std::int64_t Shape::elements() const {
  std::int64_t count = 1;
  for (int dim = 0; dim < rank_; ++dim) count *= (*this)[dim];
  return count;
}

std::int64_t Shape::pixels() const {
  std::int64_t count = 1;
  for (int dim = 2; dim < rank_; ++dim) count *= (*this)[dim];
  return count;
}

std::string to_string(const Shape& shape) {
  if (shape.rank() == 0) return "scalar";
  std::string text;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (dim > 0) text += 'x';
    text += std::to_string(shape[dim]);
  }
  return text;
}

}  // namespace trifold
