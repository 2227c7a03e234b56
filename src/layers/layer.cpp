#include "layers/layer.h"

#include "core/error.h"

namespace trifold {
namespace {

std::map<std::string, LayerType>& registry() {
  static std::map<std::string, LayerType> types;
  return types;
}

}  // namespace

const std::map<std::string, LayerType>& layer_types() {
  return registry();
}

const LayerType* find_layer_type(const std::string& name) {
  const auto found = registry().find(name);
  return found == registry().end() ? nullptr : &found->second;
}

RegisterLayer::RegisterLayer(LayerType type) {
  const std::string name = type.name;
  const bool added = registry().emplace(name, std::move(type)).second;
  TRIFOLD_CHECK(added, "two layers are named '{}'", name);
}

}  // namespace trifold
