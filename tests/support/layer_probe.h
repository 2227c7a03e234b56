// Asks one layer what it makes of given inputs, without a network around it: its shape rule with the message of its
// ShapeError, and the nodes it adds forward and backward.
#pragma once

#include <string>
#include <vector>

#include "layers/layer.h"

namespace trifold::test {

struct LayerQuestion {
  std::string type;
  std::vector<std::pair<std::string, FieldValue>> fields = {};  // over the declared defaults
  std::vector<Shape> in = {};
  ModelContext context = {.batch = 4, .global_batch = 8, .bn_group = 2, .classes = 10};
  Mode mode = Mode::train;
  std::vector<bool> wants_gradient = {};  // by input; empty: all do
};

// The shape, as text; or "error: " and the message, of infer_shape or else of forward.
std::string shape_answer(const LayerQuestion& question);

// The nodes of forward and, in training, of backward: "conv2d.forward stride 1 pad 1 (x, weight) -> y" with F, B or W
// before it, and "x gradient = dy" where an existing value is the gradient.
std::vector<std::string> nodes_of(const LayerQuestion& question);

std::vector<ParameterSpec> parameters_of(const LayerQuestion& question);

}  // namespace trifold::test
