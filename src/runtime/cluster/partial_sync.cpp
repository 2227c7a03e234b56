#include "runtime/cluster/partial_sync.h"

#include <algorithm>
#include <map>
#include <ranges>

#include <fmt/ranges.h>
#include <fnmatch.h>

#include "core/error.h"

namespace trifold {
namespace {

std::string layer_of(const ServedTensor& tensor) {
  return tensor.name.substr(0, tensor.name.rfind('.'));
}

struct LayerTensors {
  std::string layer;
  std::int64_t elements = 0;
  std::vector<ServedTensor*> tensors = {};
};

// In the order of the network.
std::vector<LayerTensors> trained_layers(std::vector<ServedTensor>& tensors) {
  std::vector<LayerTensors> layers;
  for (ServedTensor& tensor : tensors) {
    if (!tensor.trained) continue;
    auto found = std::ranges::find(layers, layer_of(tensor), &LayerTensors::layer);
    if (found == layers.end()) found = layers.insert(layers.end(), {.layer = layer_of(tensor)});
    found->elements += tensor.elements;
    found->tensors.push_back(&tensor);
  }
  return layers;
}

std::string names_of(const std::vector<LayerTensors>& layers) {
  return fmt::format("{}", fmt::join(std::views::transform(layers, &LayerTensors::layer), ", "));
}

// Takes out the layers that a pattern matches: they keep their turn in every clock.
void take_chosen(std::vector<LayerTensors>& layers, const std::vector<std::string>& patterns,
                 const std::string& where) {
  const std::vector<LayerTensors> all = layers;
  for (const std::string& pattern : patterns) {
    const auto matches = [&](const LayerTensors& layer) {
      return ::fnmatch(pattern.c_str(), layer.layer.c_str(), 0) == 0;
    };
    if (std::ranges::none_of(all, matches))
      fail_input("{}: plan.sync.layers names \"{}\", but no layer with parameters has such an id: there are {}", where,
                 pattern, names_of(all));
    std::erase_if(layers, matches);
  }
  if (layers.empty() && !patterns.empty())
    fail_input("{}: plan.sync.layers names all layers, which is what happens without it: leave it out", where);
}

}  // namespace

void assign_turns(std::vector<ServedTensor>& tensors, const ServerSync& sync,
                  const std::vector<std::int64_t>& all_before, const std::string& where) {
  if (!sync.partial()) return;
  std::vector<LayerTensors> layers = trained_layers(tensors);
  take_chosen(layers, sync.layers, where);
  const auto count = static_cast<std::int64_t>(layers.size());
  if (sync.rotate > count)
    fail_input("{}: plan.sync.rotate is {}, and only {} layer{} can take turns: set it to {} or less", where,
               sync.rotate, count, count == 1 ? "" : "s", count);
  // The largest first, each to the group that has least: the groups come out even where the layers allow it.
  std::ranges::stable_sort(layers, std::ranges::greater(), &LayerTensors::elements);
  std::vector<std::int64_t> loads(static_cast<std::size_t>(sync.rotate));
  for (const LayerTensors& layer : layers) {
    const auto least = std::ranges::min_element(loads);
    *least += layer.elements;
    for (ServedTensor* tensor : layer.tensors)
      tensor->turns = {
          .every = sync.rotate > 1 ? sync.rotate : 0, .turn = least - loads.begin(), .all_before = all_before};
  }
}

std::string describe_turns(std::vector<ServedTensor> tensors) {
  std::vector<LayerTensors> always, never;
  std::map<std::int64_t, std::vector<LayerTensors>> groups;  // by turn
  std::int64_t turns = 1;
  for (const LayerTensors& layer : trained_layers(tensors)) {
    const SyncTurns& of_layer = layer.tensors.front()->turns;
    turns = std::max(turns, of_layer.every);
    (of_layer.every == 1 ? always : of_layer.every == 0 ? never : groups[of_layer.turn]).push_back(layer);
  }
  if (never.empty() && groups.empty()) return "";
  std::string text = "synchronised";
  if (!always.empty()) text += fmt::format(" in every step: {};", names_of(always));
  if (!groups.empty()) text += fmt::format(" in turns of {}:", turns);
  for (const auto& [turn, layers] : groups) {
    std::int64_t elements = 0;
    for (const LayerTensors& layer : layers) elements += layer.elements;
    text += fmt::format("{} {} ({} numbers)", turn == 0 ? "" : " |", names_of(layers), elements);
  }
  if (!never.empty()) text += fmt::format(" only where all are: {}", names_of(never));
  return text;
}

}  // namespace trifold
