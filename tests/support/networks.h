// Small networks for tests, written in C++ instead of JSON: {id, type, inputs, fields}. No inputs: the layer before.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "layers/network.h"

namespace trifold::test {

struct LayerEntry {
  std::string id;
  std::string type;
  std::vector<std::string> in = {};
  std::vector<std::pair<std::string, FieldValue>> fields = {};
};

NetworkSpec network(Shape input, std::int64_t classes, const std::vector<LayerEntry>& layers);

// conv, batch norm, relu, two residual blocks (one with a projection), pooling, classifier: every fusion there is.
NetworkSpec small_resnet();
// The network of the classic parameter-server tutorial, on smaller images.
NetworkSpec small_tutorial();
// Tanh, average pooling and three linear layers, on smaller images.
NetworkSpec small_lenet();
// Depthwise and pointwise convolutions with batch norm, a stride between.
NetworkSpec small_mobilenet();
// conv + bias + relu + max pool, linear with dropout: what VGG is made of.
NetworkSpec small_vgg();
// Dropout between flatten and a linear layer: it keeps the order of columns in evaluation, but not in training.
NetworkSpec dropped_features();
// Depthwise convolutions, gelu, concat, average pooling, log_softmax, channel counts that no block divides.
NetworkSpec odd_network();

}  // namespace trifold::test
