// Shows a run on standard error: a progress bar, a line per epoch, and the trainer's messages.
#pragma once

#include <optional>
#include <string>

#include "insight/metrics/progress.h"
#include "runtime/train/training_observer.h"

namespace trifold {

class ProgressLines final : public TrainingObserver {
 public:
  enum class Show {
    warnings,  // a quiet run
    lines,     // messages and epochs: something else shows the steps
    bar,       // all of it
  };
  explicit ProgressLines(Show show) : show_(show), progress_(std::in_place, Progress::Args{}) {}

  void on_message(const std::string& line) override;
  void on_warning(const std::string& line) override;
  void on_begin(const RunStart& start) override;
  void on_step(const StepReport& report) override;
  void on_epoch(const EpochSummary& summary) override;
  void on_training_end() override { progress_.reset(); }  // ends the bar's line

 private:
  Show show_;
  std::int64_t epochs_ = 0;
  std::optional<Progress> progress_;
};

}  // namespace trifold
