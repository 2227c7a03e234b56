// What training says of itself on standard output, as JSON lines or as a sentence.
#pragma once

#include "runtime/train/trainer.h"

namespace trifold {

struct OutcomeForm {
  bool json = false;
  bool report = true;  // write report.html
};

void print_epoch(const EpochSummary& epoch);  // as JSON
// Writes what belongs to a finished run's folder, too.
void tell_outcome(const TrainingOutcome& outcome, const OutcomeForm& form);

}  // namespace trifold
