// What takes a layer's place on a rank that computes a part of it. Most layers narrow themselves (Layer::narrow). A
// part whose ranks exchange something within it is a layer of its own, one file each in this folder, and registers
// itself.
#pragma once

#include <memory>
#include <string>

#include "layers/layer.h"

namespace trifold {

std::unique_ptr<Layer> make_layer_part(const std::string& type, const FieldValues& values, const LayerPart& part);

struct LayerPartType {
  std::string layer;  // its JSON name
  LayerSplit split = LayerSplit::whole;
  std::unique_ptr<Layer> (*make)(const FieldValues& values, const LayerPart& part) = nullptr;
};

// At namespace scope in the part's file.
struct RegisterLayerPart {
  explicit RegisterLayerPart(const LayerPartType& type);
};

}  // namespace trifold
