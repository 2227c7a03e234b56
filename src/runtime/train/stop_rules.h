// When training is done before its last epoch.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "runtime/config/train_section.h"

namespace trifold {

struct EpochResult {
  double train_loss = 0;
  std::optional<double> test_accuracy;  // where the epoch was evaluated
  double minutes = 0;                   // of training so far, over all resumed parts
};

// Looks at epoch after epoch; its memory goes into checkpoints.
class StopDecision {
 public:
  explicit StopDecision(const StopRules& rules) : rules_(rules) {}

  // The rule that ends training after this epoch ("target_accuracy", "loss_delta", "patience", "minutes"), if any.
  std::optional<std::string> after_epoch(const EpochResult& result);
  // Time may run out within an epoch.
  bool out_of_time(double minutes) const { return rules_.minutes > 0 && minutes >= rules_.minutes; }

  std::map<std::string, double> state() const;
  void restore(const std::map<std::string, double>& state);

 private:
  StopRules rules_;
  std::optional<double> last_loss_;
  double best_accuracy_ = -1;
  std::int64_t flat_epochs_ = 0;   // one after the other whose loss changed too little
  std::int64_t worse_epochs_ = 0;  // evaluations since the best
};

}  // namespace trifold
