#include "runtime/train/parallel_learner.h"

#include <utility>

#include "runtime/train/live_board.h"
#include "runtime/train/live_run.h"

namespace trifold {

ParallelLearner::ParallelLearner(const Job& job, std::shared_ptr<const Dataset> train_set, const World* world)
    : job_(job), train_set_(std::move(train_set)), world_(world), model_(job, world) {}

void ParallelLearner::begin(std::int64_t epoch, std::int64_t step_of_epoch) {
  loader_ = make_training_loader(job_, train_set_, epoch, step_of_epoch, model_.batch_share());
}

// While a device works on this batch, the next one is on its way. (The host does its work when it is given.)
Executable::Report ParallelLearner::step(const StepContext& context, bool more) {
  if (std::exchange(submitted_, false)) {
    model_.start_step(nullptr, context);
  } else {
    model_.start_step(&loader_->next(), context);
    loader_->release();
  }
  if (more && model_.takes_batch_early()) {
    model_.submit(loader_->next());
    loader_->release();
    submitted_ = true;
  }
  return model_.finish_step();
}

Score ParallelLearner::evaluate(const std::shared_ptr<const Dataset>& dataset, EvaluationDetails* details) {
  const std::unique_ptr<Loader> loader = make_evaluation_loader(job_, dataset, model_.batch_share());
  return model_.evaluate(*loader, details);
}

void ParallelLearner::show_on(LiveBoard& board) {
  model_.announce_work(board.begin(describe_run(job_, model_, world_)));
}

}  // namespace trifold
