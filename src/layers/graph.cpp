#include "layers/graph.h"

#include <fmt/format.h>

namespace trifold {

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "F";
    case Phase::backward_input:
      return "B";
    case Phase::backward_weight:
      return "W";
    case Phase::update:
      return "U";
  }
  return "?";
}

ValueId Graph::add_value(Value value) {
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size()) - 1;
}

std::string to_string(const Graph& graph) {
  std::string text;
  const auto names = [&](const std::vector<ValueId>& ids) {
    std::string list;
    for (const ValueId id : ids) list += (list.empty() ? "" : ", ") + graph[id].name;
    return list;
  };
  for (const Node& node : graph.nodes)
    text += fmt::format("{} {}: {} -> {}\n", name_of(node.phase), to_string(*node.op), names(node.in), names(node.out));
  return text;
}

}  // namespace trifold
