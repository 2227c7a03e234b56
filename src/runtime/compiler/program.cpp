#include "runtime/compiler/program.h"

#include <fmt/format.h>

namespace trifold {

std::vector<TensorDesc> Program::descs_of(const std::vector<ValueId>& ids) const {
  std::vector<TensorDesc> found;
  found.reserve(ids.size());
  for (const ValueId id : ids) found.push_back(descs[static_cast<std::size_t>(id)]);
  return found;
}

ParameterLayouts Program::parameter_layouts() const {
  ParameterLayouts layouts;
  for (const Parameter& parameter : graph.parameters)
    layouts[parameter.name] = descs[static_cast<std::size_t>(parameter.value)].layout;
  return layouts;
}

double Program::bytes_moved(const Node& node) const {
  if (node.op->is_view()) return 0;
  double bytes = 0;
  for (const ValueId id : node.in) bytes += static_cast<double>(descs[static_cast<std::size_t>(id)].bytes());
  for (const ValueId id : node.out) bytes += static_cast<double>(descs[static_cast<std::size_t>(id)].bytes());
  return bytes;
}

std::string to_string(const Program& program) {
  std::string text;
  const auto list = [&](const std::vector<ValueId>& ids) {
    std::string names;
    for (const ValueId id : ids) {
      const auto index = static_cast<std::size_t>(id);
      const Place& place = program.memory.places[index];
      names += fmt::format("{}{} ({}, {}+{})", names.empty() ? "" : ", ", program.graph[id].name,
                           to_string(program.descs[index]), name_of(place.region), place.offset);
    }
    return names;
  };
  for (std::size_t i = 0; i < program.graph.nodes.size(); ++i) {
    const Node& node = program.graph.nodes[i];
    const std::string layer = node.layer < 0 ? "-" : program.graph.layers[static_cast<std::size_t>(node.layer)].id;
    const std::string kernel = program.kernels[i] ? program.kernels[i]->implementation() : "view";
    text += fmt::format("{:4} {} {:<14} {:<40} {:<14} {} -> {}\n", i, name_of(node.phase), layer, to_string(*node.op),
                        kernel, list(node.in), list(node.out));
  }
  return text;
}

}  // namespace trifold
