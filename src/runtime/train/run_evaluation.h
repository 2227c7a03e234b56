// Evaluates the model of a run, and keeps the scores of the last evaluation for the outcome and for checkpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "parallel/world.h"
#include "runtime/train/training_observer.h"
#include "runtime/train/training_totals.h"

namespace trifold {

class RunEvaluation {
 public:
  RunEvaluation(const Job& job, std::shared_ptr<const Dataset> test_set, Learner& learner, const Observers& observers);

  enum class Detail { score, samples };  // samples: also what became of each, for evaluation.json
  // Updates the state's best metrics. `epoch`: from 1.
  void evaluate(TrainingState& state, std::int64_t epoch, Detail detail);
  // At the end of a run. One that a stop rule ended learns only then which evaluation was its last, and repeats it for
  // the details. `has_details`: evaluation.json is of this model already.
  void evaluate_last(TrainingState& state, bool interrupted, bool has_details);

  const std::optional<double>& loss() const { return loss_; }  // none: the model was not evaluated
  const std::optional<double>& accuracy() const { return accuracy_; }
  bool is_of(const TrainingState& state) const { return evaluated_step_ == state.step; }
  static std::optional<double> best_accuracy(const TrainingState& state);

  void save(TrainingTotals::Counters& counters) const;
  void restore(const TrainingState& state);

 private:
  Score score(const TrainingState& state, Detail detail);
  void keep(const Score& score);

  const Job& job_;
  std::shared_ptr<const Dataset> test_set_;
  Learner& learner_;
  const Observers& observers_;
  bool classifies_;                   // no accuracy without classes
  std::int64_t evaluated_step_ = -1;  // where the scores stand
  std::int64_t detailed_step_ = -1;   // where evaluation.json stands, as far as this process knows
  std::optional<double> loss_;
  std::optional<double> accuracy_;
};

}  // namespace trifold
