#include "run_observers.h"

namespace trifold {
namespace {

ProgressLines::Show lines_of(const RunObservers::Args& args) {
  if (args.quiet) return ProgressLines::Show::warnings;
  return args.live != nullptr ? ProgressLines::Show::lines : ProgressLines::Show::bar;
}

}  // namespace

RunObservers::RunObservers(const Args& args) : lines_(lines_of(args)) {
  if (args.live != nullptr) live_.emplace(*args.live);
  if (args.json) json_.emplace();
}

std::vector<TrainingObserver*> RunObservers::all() {
  std::vector<TrainingObserver*> observers = {&log_, &lines_};
  if (live_) observers.insert(observers.begin(), &*live_);
  if (json_) observers.push_back(&*json_);
  return observers;
}

}  // namespace trifold
