// A network as the job describes it, resolved: layers in order with their inputs by name.
#pragma once

#include <string>
#include <vector>

#include "layers/layer.h"

namespace trifold {

// One layer of the job after blocks and repeats are unfolded.
struct LayerSpec {
  std::string id;
  std::string type;
  std::vector<std::string> in;  // ids of layers before it; "input" is the images
  FieldValues values;
  std::string place;  // "job.json:12: /model/layers/3", for errors
};

struct NetworkSpec {
  Shape input;  // [C,H,W]
  std::int64_t classes = 0;
  std::vector<LayerSpec> layers;          // in an order in which inputs come first
  std::vector<float> class_weights = {};  // [classes]: of a classifier's loss that has none of its own; empty: none
};

}  // namespace trifold
