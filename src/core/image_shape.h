// The extents of one image of a data set.
#pragma once

#include <cstdint>
#include <string>

namespace trifold {

struct ImageShape {
  int channels = 0;
  int height = 0;
  int width = 0;

  std::int64_t pixels() const { return static_cast<std::int64_t>(height) * width; }
  std::int64_t elements() const { return channels * pixels(); }
  bool operator==(const ImageShape&) const = default;
};

std::string to_string(const ImageShape& shape);  // "3x32x32"

}  // namespace trifold
