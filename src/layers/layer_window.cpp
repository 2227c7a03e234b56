#include "layers/layer_window.h"

#include "core/error.h"

namespace trifold {

ValueId LayerWindow::parameter(const std::string& name) const {
  return declared(name).value;
}

ValueId LayerWindow::make(const std::string& name, const Shape& shape, DType dtype) {
  const ValueId value = forward_.add_value({info().id + "." + name, shape, dtype, makes_});
  forward_.layers[static_cast<std::size_t>(current_)].made[name] = value;
  return value;
}

ValueId LayerWindow::made(const std::string& name) const {
  const auto found = layer().made.find(name);
  TRIFOLD_CHECK(found != layer().made.end(), "layer '{}' made no value '{}'", info().id, name);
  return found->second;
}

void LayerWindow::add(OpPtr op, std::vector<ValueId> in, std::vector<ValueId> out, Phase phase) {
  forward_.graph.nodes.push_back({std::move(op), std::move(in), std::move(out), phase, current_});
}

Parameter& LayerWindow::declared(const std::string& name) const {
  const auto found = layer().parameters.find(name);
  TRIFOLD_CHECK(found != layer().parameters.end(), "layer '{}' declared no parameter '{}'", info().id, name);
  return forward_.graph.parameters[static_cast<std::size_t>(found->second)];
}

}  // namespace trifold
