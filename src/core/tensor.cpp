#include "core/tensor.h"

#include <fmt/format.h>

namespace trifold {

std::string to_string(const TensorDesc& desc) {
  return fmt::format("{} {} {}", name_of(desc.dtype), to_string(desc.shape), to_string(desc.layout));
}

}  // namespace trifold
