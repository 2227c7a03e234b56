#include "insight/live/live_observer.h"

namespace trifold {

void LiveObserver::on_begin(const RunStart& start) {
  epochs_ = start.job.train.epochs;
  start.learner.show_on(board_);
}

void LiveObserver::on_stage(Stage stage) {
  switch (stage) {
    case Stage::training:
      return board_.does(LiveBoard::Doing::training);
    case Stage::evaluating:
      return board_.does(LiveBoard::Doing::evaluating);
    case Stage::ending:
      return board_.does(LiveBoard::Doing::ending);
  }
}

void LiveObserver::on_step(const StepReport& report) {
  LiveFigures figures{.epoch = report.epoch,
                      .epochs = epochs_,
                      .step = report.step_of_epoch,
                      .steps = report.steps_per_epoch,
                      .images = report.images,
                      .images_left = report.images_left,
                      .train_s = report.seconds,
                      .loss = report.loss,
                      .train_accuracy = report.epoch_accuracy,
                      .learning_rate = report.learning_rate};
  if (report.loss_scale) {
    figures.loss_scale = report.loss_scale->scale;
    figures.skipped_updates = report.loss_scale->skipped;
  }
  figures.input_wait_fraction = report.input_wait_fraction;
  board_.stepped(figures);
}

void LiveObserver::on_evaluation(const EvaluationReport& report) {
  board_.evaluated(report.loss, report.accuracy, report.best_accuracy);
}

}  // namespace trifold
