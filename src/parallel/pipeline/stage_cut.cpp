#include "parallel/pipeline/stage_cut.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>

#include "core/error.h"
#include "kernels/ops/collective.h"

namespace trifold {
namespace {

// Arithmetic that a processor does while it moves a byte, on the machines we measured.
constexpr double kFlopsPerByte = 10;

class PartBuilder {
 public:
  PartBuilder(const Graph& whole, const StageCut& cut, int part)
      : whole_(whole), cut_(cut), part_(part), maker_(whole.values.size(), -1), mine_(whole.values.size(), kNoValue) {
    for (std::size_t i = 0; i < whole.nodes.size(); ++i)
      for (const ValueId out : whole.nodes[i].out)
        if (is_passed(out) && maker_[static_cast<std::size_t>(out)] < 0)
          maker_[static_cast<std::size_t>(out)] = static_cast<int>(i);
    for (const Node& node : whole.nodes)
      for (const ValueId in : node.in)
        if (made_elsewhere_than(in, part_of(node))) {
          std::vector<int>& readers = readers_[in];
          if (std::ranges::find(readers, part_of(node)) == readers.end()) readers.push_back(part_of(node));
        }
  }

  Graph build() {
    part_graph_.layers = whole_.layers;  // all of them: nodes name them by index
    add_parameters();
    for (const Node& node : whole_.nodes)
      if (part_of(node) == part_) add_node(node);
    part_graph_.images = found(whole_.images);
    part_graph_.labels = found(whole_.labels);
    part_graph_.targets = found(whole_.targets);
    part_graph_.report = found(whole_.report);
    part_graph_.output = found(whole_.output);
    part_graph_.rows_differ = whole_.rows_differ;
    for (LayerInfo& layer : part_graph_.layers) forget_other_values(layer);
    return std::move(part_graph_);
  }

 private:
  // Values that nodes make; all else is there from the start.
  bool is_passed(ValueId id) const { return whole_[id].role == Role::activation || whole_[id].role == Role::gradient; }
  // What belongs to no layer prepares the images.
  int part_of(const Node& node) const {
    return node.layer < 0 ? 0 : cut_.part_of_layer[static_cast<std::size_t>(node.layer)];
  }
  const Node& maker(ValueId id) const {
    return whole_.nodes[static_cast<std::size_t>(maker_[static_cast<std::size_t>(id)])];
  }
  bool made_elsewhere_than(ValueId id, int part) const { return is_passed(id) && part_of(maker(id)) != part; }
  int stage_of(int part) const { return part % cut_.stages; }
  int tag_of(ValueId id, int reader) const { return id * cut_.parts + reader; }
  int route_of(ValueId id, int reader) const { return part_of(maker(id)) * cut_.parts + reader; }
  ValueId found(ValueId id) const { return id == kNoValue ? kNoValue : mine_[static_cast<std::size_t>(id)]; }

  ValueId mine(ValueId id) {
    ValueId& known = mine_[static_cast<std::size_t>(id)];
    if (known == kNoValue) known = part_graph_.add_value(whole_[id]);
    return known;
  }

  void add_parameters() {
    for (std::size_t l = 0; l < whole_.layers.size(); ++l) {
      LayerInfo& layer = part_graph_.layers[l];
      layer.parameters.clear();
      if (cut_.part_of_layer[l] != part_) continue;
      for (const int index : whole_.layers[l].parameters) {
        Parameter parameter = whole_.parameters[static_cast<std::size_t>(index)];
        parameter.value = mine(parameter.value);
        if (parameter.gradient != kNoValue) parameter.gradient = mine(parameter.gradient);
        layer.parameters.push_back(static_cast<int>(part_graph_.parameters.size()));
        part_graph_.parameters.push_back(std::move(parameter));
      }
    }
  }

  void add_node(const Node& node) {
    for (const ValueId in : node.in)
      if (made_elsewhere_than(in, part_) && found(in) == kNoValue) receive_up_to(in);
    Node copy = node;
    for (ValueId& id : copy.in) id = mine(id);
    for (ValueId& id : copy.out) id = mine(id);
    part_graph_.nodes.push_back(std::move(copy));
    for (const ValueId out : node.out)
      if (is_passed(out) && &maker(out) == &node) send(out, node);
  }

  // Messages of a route are received in the order in which they are sent, whichever of them is read first.
  void receive_up_to(ValueId id) {
    std::vector<ValueId> sent;
    for (const auto& [value, readers] : readers_)
      if (part_of(maker(value)) == part_of(maker(id)) && send_order(value) <= send_order(id) &&
          found(value) == kNoValue && std::ranges::find(readers, part_) != readers.end())
        sent.push_back(value);
    std::ranges::sort(sent, {}, [&](ValueId value) { return send_order(value); });
    for (const ValueId value : sent) receive(value);
  }

  // A node sends what it makes in the order of its outputs.
  std::pair<int, std::ptrdiff_t> send_order(ValueId id) const {
    const std::vector<ValueId>& made = maker(id).out;
    return {maker_[static_cast<std::size_t>(id)], std::ranges::find(made, id) - made.begin()};
  }

  // In the phase, and for the layer, that made it: both sides then agree on its type.
  void receive(ValueId id) {
    Receive op;
    op.stage = stage_of(part_of(maker(id)));
    op.tag = tag_of(id, part_);
    op.route = route_of(id, part_);
    part_graph_.nodes.push_back(
        {std::make_shared<const Receive>(op), {}, {mine(id)}, maker(id).phase, maker(id).layer});
  }

  // Such a value lies in the memory of the inputs, which is filled for a later micro-batch without waiting for
  // messages.
  bool is_view_of_input(ValueId id) const {
    while (whole_[id].role != Role::input) {
      if (maker_[static_cast<std::size_t>(id)] < 0 || !maker(id).op->is_view()) return false;
      id = maker(id).in[0];
    }
    return true;
  }

  void send(ValueId id, const Node& node) {
    const auto readers = readers_.find(id);
    if (readers == readers_.end()) return;
    for (const int reader : readers->second) {
      Send op;
      op.stage = stage_of(reader);
      op.tag = tag_of(id, reader);
      op.route = route_of(id, reader);
      if (node.phase != Phase::forward || is_view_of_input(id)) op.copies = cut_.gradient_copies;
      part_graph_.nodes.push_back({std::make_shared<const Send>(op), {mine(id)}, {}, node.phase, node.layer});
    }
  }

  void forget_other_values(LayerInfo& layer) const {
    for (ValueId& id : layer.in) id = found(id);
    layer.out = found(layer.out);
  }

  const Graph& whole_;
  const StageCut& cut_;
  int part_;
  Graph part_graph_;
  std::vector<int> maker_;                       // node that makes each value first; -1: none
  std::map<ValueId, std::vector<int>> readers_;  // other parts that read a value
  std::vector<ValueId> mine_;                    // by value of the whole graph
};

}  // namespace

Graph graph_of_part(const Graph& whole, const StageCut& cut, int part) {
  return PartBuilder(whole, cut, part).build();
}

std::vector<Route> routes_of(const Graph& part) {
  std::vector<Route> routes;
  for (const Node& node : part.nodes) {
    const auto* message = dynamic_cast<const StageMessage*>(node.op.get());
    if (message == nullptr) continue;
    const Route route{.number = message->route, .stage = message->stage, .sends = node.out.empty()};
    if (std::ranges::find(routes, route) == routes.end()) routes.push_back(route);
  }
  return routes;
}

std::vector<int> balance_parts(int layers, int parts, const PartCost& cost, const PartFits& fits) {
  if (parts > layers)
    fail_input(
        "{} pipeline stages for {} layers: there can be at most one a layer, so plan.pp times its chunks can be "
        "{} at most",
        parts, layers, layers);
  const auto at = [](int index) { return static_cast<std::size_t>(index); };
  // best[p][l]: the slowest of p parts that hold the first l layers; from[p][l]: where the last of them begins.
  std::vector<std::vector<double>> best(at(parts + 1),
                                        std::vector<double>(at(layers + 1), std::numeric_limits<double>::infinity()));
  std::vector<std::vector<int>> from(at(parts + 1), std::vector<int>(at(layers + 1), 0));
  best[0][0] = 0;
  for (int p = 1; p <= parts; ++p)
    for (int l = p; l <= layers - (parts - p); ++l)
      for (int begin = p - 1; begin < l; ++begin) {
        const double slowest = std::max(best[at(p - 1)][at(begin)], cost(p - 1, begin, l));
        if (slowest < best[at(p)][at(l)] && (!fits || fits(p - 1, begin, l))) {
          best[at(p)][at(l)] = slowest;
          from[at(p)][at(l)] = begin;
        }
      }
  if (std::isinf(best[at(parts)][at(layers)])) return {};
  std::vector<int> counts(at(parts));
  for (int p = parts, end = layers; p > 0; --p) {
    const int begin = from[at(p)][at(end)];
    counts[at(p - 1)] = end - begin;
    end = begin;
  }
  return counts;
}

std::vector<int> balance_parts(std::span<const double> costs, int parts, const PartFits& fits) {
  std::vector<double> until(costs.size() + 1, 0.0);  // cost of the layers before
  std::partial_sum(costs.begin(), costs.end(), until.begin() + 1);
  const PartCost cost = [&](int, int begin, int end) {
    return until[static_cast<std::size_t>(end)] - until[static_cast<std::size_t>(begin)];
  };
  return balance_parts(static_cast<int>(costs.size()), parts, cost, fits);
}

LayerCosts layer_costs(const Graph& graph) {
  LayerCosts costs{std::vector<double>(graph.layers.size(), 0.0), std::vector<double>(graph.layers.size(), 0.0)};
  const auto descs = [&](const std::vector<ValueId>& ids, double& bytes) {
    std::vector<TensorDesc> found;
    for (const ValueId id : ids) {
      found.push_back({graph[id].shape, graph[id].dtype, {}});
      bytes += static_cast<double>(found.back().bytes());
    }
    return found;
  };
  for (const Node& node : graph.nodes) {
    if (node.layer < 0 || node.op->is_view()) continue;
    double bytes = 0;
    const std::vector<TensorDesc> in = descs(node.in, bytes);
    const std::vector<TensorDesc> out = descs(node.out, bytes);
    const double cost = node.op->flops(in, out) + kFlopsPerByte * bytes;
    costs.all[static_cast<std::size_t>(node.layer)] += cost;
    if (node.phase == Phase::forward) costs.forward[static_cast<std::size_t>(node.layer)] += cost;
  }
  return costs;
}

StageCut make_cut(std::span<const int> layers_of_part, int stages) {
  StageCut cut{.part_of_layer = {}, .parts = static_cast<int>(layers_of_part.size()), .stages = stages};
  for (int part = 0; part < cut.parts; ++part)
    cut.part_of_layer.insert(cut.part_of_layer.end(),
                             static_cast<std::size_t>(layers_of_part[static_cast<std::size_t>(part)]), part);
  return cut;
}

}  // namespace trifold
