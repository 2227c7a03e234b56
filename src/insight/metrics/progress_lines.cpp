#include "insight/metrics/progress_lines.h"

#include "core/terminal_color.h"

namespace trifold {

void ProgressLines::on_message(const std::string& line) {
  if (show_ != Show::warnings) on_warning(line);
}

void ProgressLines::on_warning(const std::string& line) {
  if (progress_) progress_->say(line);
}

void ProgressLines::on_begin(const RunStart& start) {
  epochs_ = start.job.train.epochs;
}

void ProgressLines::on_step(const StepReport& report) {
  if (show_ != Show::bar) return;
  ProgressState shown{.epoch = report.epoch,
                      .epochs = epochs_,
                      .step = report.step_of_epoch,
                      .steps = report.steps_per_epoch,
                      .images_left = report.images_left,
                      .loss = report.epoch_loss,
                      .accuracy = report.epoch_accuracy,
                      .input_wait_fraction = report.input_wait_fraction};
  if (report.seconds > 0) shown.images_per_s = static_cast<double>(report.images) / report.seconds;
  progress_->update(shown);
}

void ProgressLines::on_epoch(const EpochSummary& summary) {
  if (show_ == Show::warnings) return;
  progress_->say(format_epoch_line({.epoch = summary.epoch,
                                    .epochs = summary.epochs,
                                    .train_loss = summary.train_loss,
                                    .train_accuracy = summary.train_accuracy,
                                    .test_loss = summary.test_loss,
                                    .test_accuracy = summary.test_accuracy,
                                    .best_test_accuracy = summary.best_test_accuracy,
                                    .images_per_s = summary.images_per_s},
                                   colors_standard_error()));
}

}  // namespace trifold
