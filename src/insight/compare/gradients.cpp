#include "insight/compare/gradients.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"

namespace trifold {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Gradients gradients_of(const ParallelModel& model) {
  const Model::Snapshot snapshot = model.snapshot(Model::Contents::gradients);
  Gradients gradients;
  for (const NamedTensor& tensor : snapshot.tensors()) {
    std::vector<float>& values = gradients[tensor.name];
    values.resize(tensor.data.size() / sizeof(float));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  }
  return gradients;
}

GradientDifference largest_difference(const Gradients& gradients, const Gradients& reference) {
  struct LayerGradient {
    double largest = 0;
    double difference = 0;
  };
  std::map<std::string, LayerGradient> layers;
  TRIFOLD_CHECK(gradients.size() == reference.size(), "{} gradients, not {}", gradients.size(), reference.size());
  for (const auto& [name, values] : reference) {
    const std::vector<float>& others = gradients.at(name);
    TRIFOLD_CHECK(others.size() == values.size(), "the gradient of '{}' has {} elements, not {}", name, others.size(),
                  values.size());
    LayerGradient& layer = layers[name.substr(0, name.rfind('.'))];
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double difference = std::abs(static_cast<double>(others[i]) - values[i]);
      layer.largest = std::max<double>(layer.largest, std::abs(values[i]));
      layer.difference = std::max(layer.difference, std::isnan(difference) ? kInfinity : difference);
    }
  }
  GradientDifference worst;
  for (const auto& [name, layer] : layers) {
    if (layer.difference == 0) continue;
    const double relative = layer.difference < kInfinity ? layer.difference / layer.largest : kInfinity;
    if (relative > worst.relative) worst = {relative, name};
  }
  return worst;
}

}  // namespace trifold
