// Tells the live view's board what the trainer does.
#pragma once

#include "runtime/train/live_board.h"
#include "runtime/train/training_observer.h"

namespace trifold {

class LiveObserver final : public TrainingObserver {
 public:
  explicit LiveObserver(LiveBoard& board) : board_(board) {}

  void on_begin(const RunStart& start) override;
  void on_stage(Stage stage) override;
  void on_step(const StepReport& report) override;
  void on_checkpoint_begun(std::int64_t step) override { board_.writes_checkpoint(step); }
  void on_checkpoint_written() override { board_.wrote_checkpoint(); }
  void on_evaluation(const EvaluationReport& report) override;

 private:
  LiveBoard& board_;
  std::int64_t epochs_ = 0;
};

}  // namespace trifold
