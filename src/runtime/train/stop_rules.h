// When training is done before its last epoch.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "runtime/config/train_section.h"

namespace trifold {

// What nodes of a cluster say of an epoch.
struct NodeFigures {
  int shards = 0;                             // of the data, a node each
  std::map<int, double> losses = {};          // by shard of the data: mean over its steps
  std::optional<double> model_distance = {};  // the largest of any node; none: not measured, or not of all
  std::optional<double> output_kl = {};
};

struct EpochResult {
  double train_loss = 0;
  std::optional<double> test_accuracy = {};  // where the epoch was evaluated
  double minutes = 0;                        // of training so far, over all resumed parts
  std::optional<NodeFigures> nodes = {};
};

// Looks at epoch after epoch; its memory goes into checkpoints.
class StopDecision {
 public:
  explicit StopDecision(const StopRules& rules) : rules_(rules) {}

  // The rule that ends training after this epoch ("target_accuracy", "loss_delta", "patience", "minutes",
  // "each_node", "model_distance", "output_kl"), if any.
  std::optional<std::string> after_epoch(const EpochResult& result);
  // Time may run out within an epoch.
  bool out_of_time(double minutes) const { return rules_.minutes > 0 && minutes >= rules_.minutes; }

  int finished_nodes() const;  // that each_node needs no longer wait for

  std::map<std::string, double> state() const;
  void restore(const std::map<std::string, double>& state);

 private:
  struct Node {
    double last_loss = 0;
    std::int64_t flat_epochs = 0;
    bool finished = false;
  };
  bool every_node_finished(const NodeFigures& nodes);

  StopRules rules_;
  std::optional<double> last_loss_;
  double best_accuracy_ = -1;
  std::int64_t flat_epochs_ = 0;   // one after the other whose loss changed too little
  std::int64_t worse_epochs_ = 0;  // evaluations since the best
  std::map<int, Node> nodes_;      // by shard
};

}  // namespace trifold
