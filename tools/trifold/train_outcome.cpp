#include "train_outcome.h"

#include <cstdio>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "insight/report/environment.h"
#include "insight/report/report.h"

namespace trifold {
namespace {

void print_json(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump());
  std::fflush(stdout);
}

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

void JsonLines::on_epoch(const EpochSummary& epoch) {
  print_json({{"event", "epoch"},
              {"epoch", epoch.epoch},
              {"step", epoch.step},
              {"train_loss", epoch.train_loss},
              {"train_accuracy", or_null(epoch.train_accuracy)},
              {"test_loss", or_null(epoch.test_loss)},
              {"test_accuracy", or_null(epoch.test_accuracy)},
              {"learning_rate", epoch.learning_rate},
              {"images_per_s", epoch.images_per_s}});
}

void tell_outcome(const TrainingOutcome& outcome, const OutcomeForm& form) {
  write_environment(outcome.folder);
  if (form.report) write_report_of(outcome.folder);
  if (form.json) {
    print_json({{"event", "done"},
                {"steps", outcome.steps},
                {"epochs", outcome.epochs},
                {"train_loss", outcome.train_loss},
                {"test_loss", or_null(outcome.test_loss)},
                {"test_accuracy", or_null(outcome.test_accuracy)},
                {"images_per_s", outcome.images_per_s},
                {"peak_bytes", outcome.peak_bytes},
                {"checkpoints",
                 {{"count", outcome.checkpoints.count},
                  {"wait_s", outcome.checkpoints.wait_s},
                  {"write_s", outcome.checkpoints.write_s}}},
                {"stopped_by", outcome.stopped_by},
                {"run", outcome.folder.string()}});
    return;
  }
  fmt::print("done: {} epochs, {} steps, stopped by {}", outcome.epochs, outcome.steps, outcome.stopped_by);
  if (outcome.test_accuracy) fmt::print(", test accuracy {:.2f} %", 100 * *outcome.test_accuracy);
  fmt::print(", {:.0f} images/s, peak {:.0f} MB\nrun folder: {}{}\n", outcome.images_per_s,
             static_cast<double>(outcome.peak_bytes) / 1e6, outcome.folder.string(),
             outcome.stopped_by == "interrupt" ? " (go on with --resume)" : "");
}

}  // namespace trifold
