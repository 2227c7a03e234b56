#include "runtime/train/stage_choice.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "runtime/train/model_options.h"

namespace trifold {
namespace {

int part_count(const ParallelPlan& plan) {
  return plan.pipeline.stages * plan.pipeline.chunks;
}

std::vector<int> listed_stages(const Job& job, int parts) {
  const auto layers = static_cast<std::int64_t>(job.model.layers.size());
  std::vector<int> counts(job.plan.stages.begin(), job.plan.stages.end());
  if (static_cast<int>(counts.size()) != parts)
    fail_input("{}: plan.stages lists {} stages, but plan.pp times plan.chunks is {}", job.file.string(), counts.size(),
               parts);
  if (const int sum = std::accumulate(counts.begin(), counts.end(), 0); sum != layers)
    fail_input("{}: plan.stages has {} layers in all, but the model has {}", job.file.string(), sum, layers);
  return counts;
}

std::vector<int> cut_stages(const Job& job, int parts) {
  const std::vector<LayerSpec>& layers = job.model.layers;
  const auto cuts = static_cast<int>(job.plan.cut_after.size());
  if (cuts != parts - 1)
    fail_input("{}: plan.cut_after names {} layer{}, but plan.pp times plan.chunks is {} parts, which need {}",
               job.file.string(), cuts, cuts == 1 ? "" : "s", parts, parts - 1);
  std::vector<int> counts;
  int begin = 0;
  for (const std::string& id : job.plan.cut_after) {
    const auto found = std::ranges::find(layers, id, &LayerSpec::id);
    if (found == layers.end()) fail_input("{}: plan.cut_after: no layer has the id '{}'", job.file.string(), id);
    const int end = static_cast<int>(found - layers.begin()) + 1;
    if (end <= begin)
      fail_input("{}: plan.cut_after: '{}' comes before the cut that is named before it", job.file.string(), id);
    counts.push_back(end - begin);
    begin = end;
  }
  const int left = static_cast<int>(layers.size()) - begin;
  if (left == 0)
    fail_input("{}: plan.cut_after: '{}' is the last layer: nothing is left for the last stage", job.file.string(),
               job.plan.cut_after.back());
  counts.push_back(left);
  return counts;
}

// What layers make a stage keep, by layer, before it is compiled: a guess that leaves out scratch, and what fusion and
// recomputation save.
struct LayerBytes {
  std::vector<double> state;    // parameters, gradients, the optimiser's
  std::vector<double> kept;     // of one micro-batch, from forward to backward work
  std::vector<double> entered;  // of one micro-batch, made before the layer for it or for a later one; 0 for the images
};

LayerBytes layer_bytes(const Graph& whole, const ModelOptions& options, bool accumulates) {
  const auto bytes_of = [&](ValueId id) {
    return static_cast<double>(TensorDesc{whole[id].shape, whole[id].dtype, {}}.bytes());
  };
  const std::vector<double> zeros(whole.layers.size(), 0.0);
  LayerBytes bytes{zeros, zeros, zeros};
  const double copies =
      2 + static_cast<double>(optimizer_state_names(options.optimizer).size()) + (accumulates ? 1 : 0);
  for (std::size_t l = 0; l < whole.layers.size(); ++l)
    for (const int parameter : whole.layers[l].parameters)
      bytes.state[l] += copies * bytes_of(whole.parameters[static_cast<std::size_t>(parameter)].value);
  std::vector<bool> wanted(whole.values.size(), false);  // by backward work
  for (const Node& node : whole.nodes)
    if (node.phase != Phase::forward)
      for (const ValueId id : node.in) wanted[static_cast<std::size_t>(id)] = true;
  for (const Node& node : whole.nodes)
    if (node.phase == Phase::forward && node.layer >= 0)
      for (const ValueId id : node.out)
        if (wanted[static_cast<std::size_t>(id)] && whole[id].role == Role::activation)
          bytes.kept[static_cast<std::size_t>(node.layer)] += bytes_of(id);
  for (std::size_t made_by = 0; made_by < whole.layers.size(); ++made_by) {
    const ValueId out = whole.layers[made_by].out;
    std::size_t last = made_by;  // reader
    for (std::size_t l = made_by + 1; l < whole.layers.size(); ++l)
      if (std::ranges::find(whole.layers[l].in, out) != whole.layers[l].in.end()) last = l;
    for (std::size_t l = made_by + 1; l <= last; ++l) bytes.entered[l] += bytes_of(out);
  }
  return bytes;
}

// Sums over runs of layers. A loss that was added goes with the last layer.
class RunSums {
 public:
  RunSums(std::vector<double> of_layers, int layers) : until_(static_cast<std::size_t>(layers) + 1, 0.0) {
    for (; std::ssize(of_layers) > layers; of_layers.pop_back()) of_layers[of_layers.size() - 2] += of_layers.back();
    std::partial_sum(of_layers.begin(), of_layers.end(), until_.begin() + 1);
  }
  double operator()(int begin, int end) const {
    return until_[static_cast<std::size_t>(end)] - until_[static_cast<std::size_t>(begin)];
  }

 private:
  std::vector<double> until_;
};

// Measured times are of forward and backward work together: how much of a layer's is forward is estimated.
LayerCosts costs_of_layers(const Graph& whole, std::span<const double> measured) {
  LayerCosts costs = layer_costs(whole);
  for (std::size_t l = 0; l < measured.size(); ++l) {
    if (costs.all[l] > 0) costs.forward[l] *= measured[l] / costs.all[l];
    costs.all[l] = measured[l];
  }
  return costs;
}

}  // namespace

std::vector<int> choose_stages(const Job& job, const ModelOptions& options, const ParallelPlan& plan,
                               const Graph& whole, std::span<const double> measured) {
  const int parts = part_count(plan);
  if (!job.plan.cut_after.empty()) return cut_stages(job, parts);
  if (!job.plan.stages.empty()) return listed_stages(job, parts);
  const auto layers = static_cast<int>(job.model.layers.size());
  const LayerCosts costs = costs_of_layers(whole, measured);
  const RunSums cost_of_all(costs.all, layers);
  const RunSums cost_of_forward(costs.forward, layers);
  const PartCost cost = [&](int part, int begin, int end) {
    const bool repeats = plan.recomputes[static_cast<std::size_t>(part)];
    return cost_of_all(begin, end) + (repeats ? cost_of_forward(begin, end) : 0);
  };

  const LayerBytes bytes = layer_bytes(whole, options, plan.pipeline.micro_batches > 1);
  const RunSums state_of(bytes.state, layers);
  const RunSums kept_of(bytes.kept, layers);
  std::vector<double> slots;  // micro-batches that a part keeps at once
  for (int part = 0; part < parts; ++part)
    slots.push_back(assign_slots(plan.pipeline, part % plan.pipeline.stages)
                        .slots[static_cast<std::size_t>(part / plan.pipeline.stages)]);
  const auto needs = [&](int part, int begin, int end) {
    const auto at = static_cast<std::size_t>(part);
    if (!plan.recomputes[at]) return state_of(begin, end) + slots[at] * kept_of(begin, end);
    // What comes in and goes out with each micro-batch, and the activations of the one that goes backward.
    const auto entered = [&](int layer) { return layer < layers ? bytes.entered[static_cast<std::size_t>(layer)] : 0; };
    return state_of(begin, end) + slots[at] * (entered(begin) + entered(end)) + kept_of(begin, end);
  };
  // A rank's memory is for all its chunks.
  const double limit = static_cast<double>(memory_limit(job, *options.device)) / plan.pipeline.chunks;
  // Some of it is better left for what the guess leaves out.
  for (const double share : {0.95, 1.0}) {
    const PartFits fits = [&](int part, int begin, int end) { return needs(part, begin, end) <= share * limit; };
    if (std::vector<int> balanced = balance_parts(layers, parts, cost, fits); !balanced.empty()) return balanced;
  }
  return balance_parts(layers, parts, cost);  // none seems to fit: the exact plan of the memory will tell
}

}  // namespace trifold
