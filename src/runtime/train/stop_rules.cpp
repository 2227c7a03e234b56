#include "runtime/train/stop_rules.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace trifold {

std::optional<std::string> StopDecision::after_epoch(const EpochResult& result) {
  const bool flat =
      rules_.loss_delta > 0 && last_loss_ && std::abs(*last_loss_ - result.train_loss) < rules_.loss_delta;
  flat_epochs_ = flat ? flat_epochs_ + 1 : 0;
  last_loss_ = result.train_loss;
  if (result.test_accuracy) {
    const bool better = *result.test_accuracy > best_accuracy_;
    worse_epochs_ = better ? 0 : worse_epochs_ + 1;
    if (better) best_accuracy_ = *result.test_accuracy;
  }

  if (rules_.target_accuracy > 0 && result.test_accuracy && *result.test_accuracy >= rules_.target_accuracy)
    return "target_accuracy";
  // With loss_delta, patience is how many flat epochs are borne; without it, how many that bring no better accuracy.
  if (rules_.each_node) {
    if (result.nodes && every_node_finished(*result.nodes)) return "each_node";
  } else if (rules_.loss_delta > 0) {
    if (flat && flat_epochs_ > rules_.patience) return "loss_delta";
  } else if (rules_.patience > 0 && worse_epochs_ >= rules_.patience) {
    return "patience";
  }
  const auto below = [](double limit, const std::optional<double>& value) {
    return limit > 0 && value && *value < limit;
  };
  if (result.nodes && below(rules_.model_distance, result.nodes->model_distance)) return "model_distance";
  if (result.nodes && below(rules_.output_kl, result.nodes->output_kl)) return "output_kl";
  if (out_of_time(result.minutes)) return "minutes";
  return std::nullopt;
}

// A node that has had a flat epoch (or so many as patience bears, and one) has finished for good: others' rounds may
// still move what it sees. Clients that did not take part are compared with the last round in which they did.
bool StopDecision::every_node_finished(const NodeFigures& nodes) {
  for (const auto& [shard, loss] : nodes.losses) {
    const auto [found, first] = nodes_.try_emplace(shard, Node{.last_loss = loss});
    Node& node = found->second;
    if (first) continue;
    node.flat_epochs = std::abs(node.last_loss - loss) < rules_.loss_delta ? node.flat_epochs + 1 : 0;
    node.last_loss = loss;
    node.finished = node.finished || node.flat_epochs > rules_.patience;
  }
  return nodes.shards > 0 && finished_nodes() == nodes.shards;
}

int StopDecision::finished_nodes() const {
  return static_cast<int>(std::ranges::count_if(nodes_, [](const auto& node) { return node.second.finished; }));
}

std::map<std::string, double> StopDecision::state() const {
  std::map<std::string, double> state = {{"stop.best_accuracy", best_accuracy_},
                                         {"stop.flat_epochs", static_cast<double>(flat_epochs_)},
                                         {"stop.worse_epochs", static_cast<double>(worse_epochs_)}};
  if (last_loss_) state["stop.last_loss"] = *last_loss_;
  for (const auto& [shard, node] : nodes_) {
    const std::string key = "stop.node." + std::to_string(shard);
    state[key + ".last_loss"] = node.last_loss;
    state[key + ".flat_epochs"] = static_cast<double>(node.flat_epochs);
    state[key + ".finished"] = node.finished ? 1 : 0;
  }
  return state;
}

void StopDecision::restore(const std::map<std::string, double>& state) {
  const auto number = [&](const char* key, double fallback) {
    const auto found = state.find(key);
    return found == state.end() ? fallback : found->second;
  };
  best_accuracy_ = number("stop.best_accuracy", -1);
  flat_epochs_ = static_cast<std::int64_t>(number("stop.flat_epochs", 0));
  worse_epochs_ = static_cast<std::int64_t>(number("stop.worse_epochs", 0));
  if (state.contains("stop.last_loss")) last_loss_ = state.at("stop.last_loss");
  nodes_.clear();
  constexpr std::string_view kNode = "stop.node.";
  for (auto found = state.lower_bound(std::string(kNode)); found != state.end() && found->first.starts_with(kNode);
       ++found) {
    const std::string rest = found->first.substr(kNode.size());
    const std::size_t dot = rest.find('.');
    Node& node = nodes_[std::stoi(rest.substr(0, dot))];
    const std::string field = rest.substr(dot + 1);
    if (field == "last_loss") node.last_loss = found->second;
    if (field == "flat_epochs") node.flat_epochs = static_cast<std::int64_t>(found->second);
    if (field == "finished") node.finished = found->second != 0;
  }
}

}  // namespace trifold
