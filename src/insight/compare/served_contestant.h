// A plan with parameter servers: servers and workers are processes of this machine, and this one is their manager.
// Between turns the workers wait. What they send, how stale what they pulled was and how much memory they took is what
// they report; how their time divides is not known here.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "insight/compare/contestant.h"
#include "runtime/cluster/cluster_host.h"
#include "runtime/data/dataset.h"

namespace trifold {

struct ServedContestantArgs {
  const ComparedPlan& plan;
  std::shared_ptr<const Dataset> data = {};
  int cores = 1;                       // that the workers share
  int steps = 0;                       // of all turns together: an input error where the job has fewer
  std::filesystem::path program = {};  // that has the commands "server" and "worker"
};

class ServedContestant final : public Contestant {
 public:
  explicit ServedContestant(ServedContestantArgs args);
  ~ServedContestant() override;  // what was started ends

  void take_turn(int steps) override;
  void finish() override;

  const ComparedPlan& plan() const override { return args_.plan; }
  double images_per_s(std::size_t turn) const override { return turns_[turn].images / turns_[turn].seconds(); }
  const std::vector<double>& losses() const override { return losses_; }
  void describe(PlanResult& result, std::size_t turn) const override;

 private:
  class PausedCluster;
  using Clock = std::chrono::steady_clock;
  // By when workers' reports came: what all of them had done of the first step is where the time begins.
  struct TimedTurn {
    Clock::time_point begin = {};
    Clock::time_point end = {};
    double images = 0;

    double seconds() const { return std::chrono::duration<double>(end - begin).count(); }
  };

  void start(std::int64_t first_pause);
  std::map<int, ShardReport> step();  // by shard: what its worker reports
  void add(const std::map<int, ShardReport>& reports, TimedTurn& turn);

  const ServedContestantArgs args_;
  Job job_;  // the plan's, with the threads that a worker has
  std::unique_ptr<PausedCluster> cluster_;
  std::unique_ptr<ServedLearner> learner_;
  std::vector<TimedTurn> turns_;
  std::vector<double> losses_;
  ServedResult found_;  // bytes and staleness are sums as yet
  std::int64_t timed_steps_ = 0;
};

}  // namespace trifold
