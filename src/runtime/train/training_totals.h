// Sums over the steps of a run: log lines, epochs and the outcome are made of them, and checkpoints keep some.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace trifold {

struct TrainingTotals {
  using Counters = std::map<std::string, double>;  // of TrainingState

  double epoch_loss = 0;     // summed over this epoch's steps
  double epoch_correct = 0;  // samples of this epoch
  double epoch_seconds = 0;  // of this epoch, in this process
  std::int64_t epoch_images = 0;
  double run_seconds = 0;  // of this process
  std::int64_t run_images = 0;
  double trained_seconds = 0;  // over all processes that trained the run, one after the other

  void add_step(double loss, double correct, double seconds, std::int64_t images);
  void end_epoch();
  double epoch_rate() const { return epoch_seconds > 0 ? static_cast<double>(epoch_images) / epoch_seconds : 0; }
  double run_rate() const { return run_seconds > 0 ? static_cast<double>(run_images) / run_seconds : 0; }

  void save(Counters& counters) const;
  void restore(const Counters& counters);
};

// 0 where there is none.
double counter(const TrainingTotals::Counters& counters, const std::string& name);

}  // namespace trifold
