// What watches a run that a command trains: its log, lines or the live screen, and JSON lines on standard output.
#pragma once

#include <optional>
#include <vector>

#include "insight/live/live_observer.h"
#include "insight/metrics/progress_lines.h"
#include "insight/metrics/run_log.h"
#include "train_outcome.h"

namespace trifold {

class RunObservers {
 public:
  struct Args {
    bool quiet = false;
    bool json = false;
    LiveBoard* live = nullptr;  // null: no live screen
  };
  explicit RunObservers(const Args& args);

  // Valid as long as this object.
  std::vector<TrainingObserver*> all();

 private:
  RunLog log_;
  ProgressLines lines_;
  std::optional<LiveObserver> live_;
  std::optional<JsonLines> json_;
};

}  // namespace trifold
