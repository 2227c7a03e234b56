#include "runtime/train/live_board.h"

#include <algorithm>
#include <utility>

namespace trifold {

std::span<RankActivity> LiveBoard::begin(LiveRun run) {
  const std::lock_guard lock(mutex_);
  activities_ = std::vector<RankActivity>(run.ranks_here.size());
  run_ = std::make_unique<LiveRun>(std::move(run));
  now_.doing = Doing::training;
  return activities_;
}

void LiveBoard::stepped(const LiveFigures& figures) {
  const std::lock_guard lock(mutex_);
  now_.figures = figures;
  now_.least_loss = now_.has_figures ? std::min(now_.least_loss, figures.loss) : figures.loss;
  now_.has_figures = true;
  now_.stepped_at = Clock::now();
  losses_.add(figures.loss);
}

void LiveBoard::cluster(LiveCluster cluster) {
  const std::lock_guard lock(mutex_);
  now_.cluster = std::move(cluster);
}

void LiveBoard::does(Doing doing) {
  const std::lock_guard lock(mutex_);
  now_.doing = doing;
}

void LiveBoard::evaluated(double loss, std::optional<double> accuracy, std::optional<double> best_accuracy) {
  const std::lock_guard lock(mutex_);
  now_.test_loss = loss;
  now_.test_accuracy = accuracy;
  now_.best_test_accuracy = best_accuracy;
}

void LiveBoard::writes_checkpoint(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  now_.checkpoint_step = step;
  now_.writing_checkpoint = true;
}

void LiveBoard::wrote_checkpoint() {
  const std::lock_guard lock(mutex_);
  now_.writing_checkpoint = false;
}

void LiveBoard::read(Reading& reading) const {
  const std::lock_guard lock(mutex_);
  reading = now_;
  reading.losses = losses_.points();
  reading.read_at = Clock::now();
  reading.ranks.clear();
  for (const RankActivity& activity : activities_) reading.ranks.push_back(activity.read(reading.read_at));
}

const LiveRun* LiveBoard::run() const {
  const std::lock_guard lock(mutex_);
  return run_.get();
}

}  // namespace trifold
