#include "runtime/train/training_totals.h"

namespace trifold {

void TrainingTotals::add_step(double loss, double correct, double seconds, std::int64_t images) {
  epoch_loss += loss;
  epoch_correct += correct;
  epoch_seconds += seconds;
  epoch_images += images;
  run_seconds += seconds;
  run_images += images;
  trained_seconds += seconds;
}

void TrainingTotals::end_epoch() {
  epoch_loss = epoch_correct = epoch_seconds = 0;
  epoch_images = 0;
}

void TrainingTotals::save(Counters& counters) const {
  counters["epoch.loss"] = epoch_loss;
  counters["epoch.correct"] = epoch_correct;
  counters["trained_seconds"] = trained_seconds;
}

void TrainingTotals::restore(const Counters& counters) {
  epoch_loss = counter(counters, "epoch.loss");
  epoch_correct = counter(counters, "epoch.correct");
  trained_seconds = counter(counters, "trained_seconds");
}

double counter(const TrainingTotals::Counters& counters, const std::string& name) {
  const auto found = counters.find(name);
  return found == counters.end() ? 0.0 : found->second;
}

}  // namespace trifold
