#include "runtime/train/run_evaluation.h"

#include <algorithm>
#include <utility>

#include "runtime/train/job_data.h"

namespace trifold {

RunEvaluation::RunEvaluation(const Job& job, std::shared_ptr<const Dataset> test_set, Learner& learner,
                             const Observers& observers)
    : job_(job),
      test_set_(std::move(test_set)),
      learner_(learner),
      observers_(observers),
      classifies_(!is_regression(job)) {}

void RunEvaluation::evaluate(TrainingState& state, std::int64_t epoch, Detail detail) {
  keep(score(state, detail));
  evaluated_step_ = state.step;
  if (accuracy_) {
    double& best = state.best_metrics.try_emplace("test_accuracy", *accuracy_).first->second;
    best = std::max(best, *accuracy_);
  }
  observers_.tell(&TrainingObserver::on_evaluation, EvaluationReport{.step = state.step,
                                                                     .epoch = epoch,
                                                                     .loss = *loss_,
                                                                     .accuracy = accuracy_,
                                                                     .best_accuracy = best_accuracy(state)});
}

void RunEvaluation::evaluate_last(TrainingState& state, bool interrupted, bool has_details) {
  if (!is_of(state)) {
    loss_ = accuracy_ = std::nullopt;
    if (!interrupted) evaluate(state, state.epoch + 1, Detail::samples);
    return;
  }
  if (classifies_ && detailed_step_ != state.step && !interrupted && !has_details) score(state, Detail::samples);
}

Score RunEvaluation::score(const TrainingState& state, Detail detail) {
  observers_.tell(&TrainingObserver::on_stage, TrainingObserver::Stage::evaluating);
  Score score;
  if (detail == Detail::score || !classifies_) {
    score = learner_.evaluate(test_set_, nullptr);
  } else {
    EvaluationDetails details(job_.model.classes);
    score = learner_.evaluate(test_set_, &details);
    detailed_step_ = state.step;
    observers_.tell(&TrainingObserver::on_evaluation_details, state.step, details, *test_set_);
  }
  observers_.tell(&TrainingObserver::on_stage, TrainingObserver::Stage::training);
  return score;
}

void RunEvaluation::keep(const Score& score) {
  loss_ = score.loss;
  if (classifies_) accuracy_ = score.accuracy;
}

std::optional<double> RunEvaluation::best_accuracy(const TrainingState& state) {
  const auto best = state.best_metrics.find("test_accuracy");
  return best == state.best_metrics.end() ? std::nullopt : std::optional(best->second);
}

void RunEvaluation::save(TrainingTotals::Counters& counters) const {
  counters["evaluated.step"] = static_cast<double>(evaluated_step_);
  if (loss_) counters["evaluated.loss"] = *loss_;
  if (accuracy_) counters["evaluated.accuracy"] = *accuracy_;
}

void RunEvaluation::restore(const TrainingState& state) {
  evaluated_step_ = static_cast<std::int64_t>(counter(state.counters, "evaluated.step"));
  if (is_of(state)) keep({counter(state.counters, "evaluated.loss"), counter(state.counters, "evaluated.accuracy")});
}

}  // namespace trifold
