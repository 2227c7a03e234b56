#include "runtime/train/stop_rules.h"

#include <cmath>

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
  if (rules_.loss_delta > 0) {
    if (flat && flat_epochs_ > rules_.patience) return "loss_delta";
  } else if (rules_.patience > 0 && worse_epochs_ >= rules_.patience) {
    return "patience";
  }
  if (out_of_time(result.minutes)) return "minutes";
  return std::nullopt;
}

std::map<std::string, double> StopDecision::state() const {
  std::map<std::string, double> state = {{"stop.best_accuracy", best_accuracy_},
                                         {"stop.flat_epochs", static_cast<double>(flat_epochs_)},
                                         {"stop.worse_epochs", static_cast<double>(worse_epochs_)}};
  if (last_loss_) state["stop.last_loss"] = *last_loss_;
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
}

}  // namespace trifold
