#include "layers/split.h"

#include <algorithm>

namespace trifold {

const std::vector<std::string>& split_names() {
  static const std::vector<std::string> names = {"none", "out_channels", "in_channels", "groups", "rows", "blocks"};
  return names;
}

const char* name_of(LayerSplit split) {
  return split_names()[static_cast<std::size_t>(split)].c_str();
}

std::optional<LayerSplit> parse_split(std::string_view name) {
  const auto found = std::ranges::find(split_names(), name);
  if (found == split_names().end()) return std::nullopt;
  return static_cast<LayerSplit>(found - split_names().begin());
}

}  // namespace trifold
