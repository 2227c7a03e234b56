// Where a run tells what it does, for the view that shows it: the trainer writes once a step, ranks whenever they begin
// something else, managers of clusters every now and then, and the view reads when it likes. Nobody waits for the view,
// and a step allocates nothing for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/rank_activity.h"
#include "runtime/train/live_cluster.h"
#include "runtime/train/value_history.h"

namespace trifold {

// What the trainer knows after a step.
struct LiveFigures {
  std::int64_t epoch = 0;  // from 1
  std::int64_t epochs = 0;
  std::int64_t step = 0;  // done in this epoch
  std::int64_t steps = 0;
  std::int64_t images = 0;  // done by this process
  std::int64_t images_left = 0;
  double train_s = 0;                         // that these took
  double loss = 0;                            // of the last step
  std::optional<double> train_accuracy = {};  // of this epoch; accuracies: 0 to 1
  double learning_rate = 0;
  std::optional<double> loss_scale = {};
  double skipped_updates = 0;  // by the loss scale
  double input_wait_fraction = 0;
};

// A rank of this process, as it was made.
struct LiveRankInfo {
  int rank = 0;
  std::string place = {};                             // "dp 0 pp 1"
  std::size_t plan_bytes = 0;                         // of memory
  std::vector<std::string> names = {};                // of layers and ops
  std::vector<std::vector<std::int32_t>> nodes = {};  // by program: a node's name
};

struct LiveRun {
  std::string job = {};
  std::string plan = {};  // "dp=2 pp=2, 1f1b, 8 micro-batches"
  int micro_batches = 1;
  int ranks = 1;  // of all processes
  int processes = 1;
  std::vector<LiveRankInfo> ranks_here = {};
};

class LiveBoard {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Doing { preparing, training, evaluating, ending };

  // The run is ready to begin. The activities are the ranks', in the order of `ranks_here`, and stay where they are.
  std::span<RankActivity> begin(LiveRun run);
  void stepped(const LiveFigures& figures);
  void cluster(LiveCluster cluster);  // by a run whose workers are elsewhere, as it changes
  void does(Doing doing);
  void evaluated(double loss, std::optional<double> accuracy, std::optional<double> best_accuracy);
  void writes_checkpoint(std::int64_t step);  // of so many updates
  void wrote_checkpoint();

  // What the view shows. Strings and vectors of the last call are used again.
  struct Reading {
    Doing doing = Doing::preparing;
    LiveFigures figures = {};
    bool has_figures = false;
    Clock::time_point stepped_at = {};  // when the figures came
    std::vector<double> losses = {};
    double least_loss = 0;
    std::optional<double> test_loss = {}, test_accuracy = {}, best_test_accuracy = {};
    std::int64_t checkpoint_step = -1;  // the newest; -1: none yet
    bool writing_checkpoint = false;
    std::vector<RankActivity::Sample> ranks = {};  // of this process
    std::optional<LiveCluster> cluster = {};
    Clock::time_point read_at = {};
  };
  void read(Reading& reading) const;
  // Set by begin() and never changed after; null before.
  const LiveRun* run() const;

 private:
  mutable std::mutex mutex_;  // guards what follows
  Reading now_;
  ValueHistory losses_;
  std::unique_ptr<LiveRun> run_;
  std::vector<RankActivity> activities_;  // their contents are the ranks'
};

}  // namespace trifold
