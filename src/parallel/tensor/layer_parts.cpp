#include "parallel/tensor/layer_parts.h"

#include <map>
#include <utility>

#include "core/error.h"

namespace trifold {
namespace {

using PartKey = std::pair<std::string, LayerSplit>;

std::map<PartKey, LayerPartType>& layer_part_types() {
  static std::map<PartKey, LayerPartType> types;
  return types;
}

}  // namespace

RegisterLayerPart::RegisterLayerPart(const LayerPartType& type) {
  const bool added = layer_part_types().emplace(PartKey{type.layer, type.split}, type).second;
  TRIFOLD_CHECK(added, "two parts of layer '{}' are registered for one split", type.layer);
}

std::unique_ptr<Layer> make_layer_part(const std::string& type, const FieldValues& values, const LayerPart& part) {
  const auto found = layer_part_types().find({type, part.split});
  if (found != layer_part_types().end()) return found->second.make(values, part);
  std::unique_ptr<Layer> layer = find_layer_type(type)->make(values);
  layer->narrow(part);
  return layer;
}

}  // namespace trifold
