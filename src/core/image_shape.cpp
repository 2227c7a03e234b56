#include "core/image_shape.h"

#include <fmt/format.h>

namespace trifold {

std::string to_string(const ImageShape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

}  // namespace trifold
