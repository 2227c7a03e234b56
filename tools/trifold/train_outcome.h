// What training says of itself on standard output, as JSON lines or as a sentence.
#pragma once

#include "runtime/train/trainer.h"

namespace trifold {

struct OutcomeForm {
  bool json = false;
  bool report = true;  // write report.html
};

// A JSON line for each epoch.
class JsonLines final : public TrainingObserver {
 public:
  void on_epoch(const EpochSummary& summary) override;
};

// Writes what belongs to a finished run's folder, too.
void tell_outcome(const TrainingOutcome& outcome, const OutcomeForm& form);

}  // namespace trifold
