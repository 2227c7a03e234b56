#include "runtime/config/layer_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

namespace trifold {
namespace {

using Index = std::size_t;

// Follows unmet inputs from a layer that could not be placed until one comes round again.
[[noreturn]] void fail_cycle(const std::vector<ExpandedLayer>& layers, const std::vector<std::vector<Index>>& reads,
                             const std::vector<Index>& unmet) {
  Index at = 0;
  while (unmet[at] == 0) ++at;
  std::vector<Index> path;
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    at = *std::find_if(reads[at].begin(), reads[at].end(), [&](Index input) { return unmet[input] > 0; });
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  const Index first = *std::min_element(path.begin(), path.end());
  std::rotate(path.begin(), std::find(path.begin(), path.end(), first), path.end());
  if (path.size() == 1) fail_at(layers[first].entry, "layer '{}' reads itself", layers[first].id);
  std::string text;
  for (const Index index : path) text += fmt::format("'{}' reads ", layers[index].id);
  fail_at(layers[first].entry, "these layers form a cycle: {}'{}'", text, layers[first].id);
}

}  // namespace

std::vector<ExpandedLayer> in_running_order(std::vector<ExpandedLayer> layers) {
  std::unordered_map<std::string, Index> index_of;
  for (Index i = 0; i < layers.size(); ++i) index_of.emplace(layers[i].id, i);

  std::vector<std::vector<Index>> reads(layers.size());
  std::vector<std::vector<Index>> readers(layers.size());
  std::vector<Index> unmet(layers.size(), 0);
  for (Index i = 0; i < layers.size(); ++i) {
    for (const std::string& input : layers[i].in) {
      if (input == "input") continue;
      const Index source = index_of.at(input);
      reads[i].push_back(source);
      readers[source].push_back(i);
      ++unmet[i];
    }
  }

  std::priority_queue<Index, std::vector<Index>, std::greater<>> ready;  // the earliest in the file first
  for (Index i = 0; i < layers.size(); ++i)
    if (unmet[i] == 0) ready.push(i);
  std::vector<Index> order;
  while (!ready.empty()) {
    const Index next = ready.top();
    ready.pop();
    order.push_back(next);
    for (const Index reader : readers[next])
      if (--unmet[reader] == 0) ready.push(reader);
  }
  if (order.size() < layers.size()) fail_cycle(layers, reads, unmet);

  for (const Index i : order)
    if (i != order.back() && readers[i].empty())
      fail_at(layers[i].entry, "nothing reads layer '{}'; remove it or name it in some 'in'", layers[i].id);

  std::vector<ExpandedLayer> sorted;
  sorted.reserve(layers.size());
  for (const Index i : order) sorted.push_back(std::move(layers[i]));
  return sorted;
}

}  // namespace trifold
