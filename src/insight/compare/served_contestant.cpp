#include "insight/compare/served_contestant.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "runtime/cluster/cluster_host.h"
#include "runtime/train/parallel_plan.h"

namespace trifold {
namespace {

class ServedContestant final : public Contestant {
 public:
  explicit ServedContestant(ServedContestantArgs args);
  ~ServedContestant() override;  // what was started ends
  ServedContestant(const ServedContestant&) = delete;
  ServedContestant& operator=(const ServedContestant&) = delete;

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

// Workers do as many clocks as they are let, from the first one on.
class ServedContestant::PausedCluster final : public ClusterSide {
 public:
  PausedCluster(const Job& job, const std::filesystem::path& program, std::int64_t first_pause)
      : host_(job, cluster_of_this_machine(job, program)), first_pause_(first_pause) {}

  ClusterManager& open(const ServicePlan& plan) override {
    manager_ = &host_.open(plan);
    manager_->pause_at(first_pause_);
    return *manager_;
  }
  ServerClient& client() override { return host_.client(); }
  void look_after_members() override { host_.look_after_members(); }
  bool keep_progress(const TrainingState& /*state*/) override { return true; }  // it dies with its members

  ClusterManager& manager() { return *manager_; }  // once it is open
  void end() { host_.end(); }

 private:
  ClusterHost host_;
  const std::int64_t first_pause_;
  ClusterManager* manager_ = nullptr;
};

ServedContestant::ServedContestant(ServedContestantArgs args) : args_(std::move(args)), job_(args_.plan.job) {
  const ServerSync& sync = *job_.plan.servers;
  const std::int64_t steps = clocks_per_epoch(job_, args_.data->size()) * job_.train.epochs;
  if (args_.steps > steps)
    fail_input("plan '{}': its workers do the {} steps of the job's {} epochs, not {}: set --steps or train.epochs",
               plan().name, steps, job_.train.epochs, args_.steps);
  job_.train.threads = std::max<std::int64_t>(1, args_.cores / sync.shards);
  const auto workers = static_cast<std::size_t>(sync.shards);
  found_ = {.mode = name_of(sync.consistency),
            .servers = static_cast<int>(sync.servers),
            .workers = static_cast<int>(sync.shards),
            .sent = std::vector<double>(workers),
            .received = std::vector<double>(workers),
            .peak_bytes = std::vector<std::int64_t>(workers)};
  if (sync.consistency == Consistency::ssp) found_.staleness_bound = sync.staleness;
}

ServedContestant::~ServedContestant() = default;

void ServedContestant::start(std::int64_t first_pause) {
  cluster_ = std::make_unique<PausedCluster>(job_, args_.program, first_pause);
  learner_ = std::make_unique<ServedLearner>(job_, args_.data, *cluster_);
  learner_->initialize(job_.train.seed);
  learner_->begin(0, 0);
}

std::map<int, ShardReport> ServedContestant::step() {
  const auto clock = static_cast<std::int64_t>(losses_.size());
  losses_.push_back(learner_->step({.seed = job_.train.seed, .updates = clock + 1}, true).loss);
  std::map<int, ShardReport> reports = cluster_->manager().take_reports(clock);
  for (const auto& [shard, report] : reports) {
    std::int64_t& peak = found_.peak_bytes[static_cast<std::size_t>(shard)];
    peak = std::max(peak, report.peak_bytes);
  }
  return reports;
}

// A worker may have been ahead when the others had done the first step: what it did before is not counted.
void ServedContestant::add(const std::map<int, ShardReport>& reports, TimedTurn& turn) {
  for (const auto& [shard, report] : reports) {
    const auto worker = static_cast<std::size_t>(shard);
    found_.sent[worker] += static_cast<double>(report.sent_bytes);
    found_.received[worker] += static_cast<double>(report.received_bytes);
    found_.mean_staleness += static_cast<double>(report.staleness) / found_.workers;
    if (report.arrived <= turn.begin) continue;
    turn.end = std::max(turn.end, report.arrived);
    turn.images += static_cast<double>(report.samples);
  }
  timed_steps_ += 1;
}

void ServedContestant::take_turn(int steps) {
  try {
    const std::int64_t end = static_cast<std::int64_t>(losses_.size()) + steps;
    if (!cluster_)
      start(end);
    else
      cluster_->manager().pause_at(end);
    TimedTurn turn;
    for (const auto& [shard, report] : step()) turn.begin = std::max(turn.begin, report.arrived);
    for (int i = 1; i < steps; ++i) add(step(), turn);
    if (turn.images == 0) fail_runtime("its workers reported too little to time {} steps: take more", steps);
    turns_.push_back(turn);
  } catch (const Error& error) {
    const std::string what = error.what();
    throw Error(error.fault(), what.empty() ? what : fmt::format("plan '{}': {}", plan().name, what));
  }
}

void ServedContestant::finish() {
  if (!cluster_) return;
  found_.staleness = cluster_->manager().worst_staleness();
  cluster_->end();
}

void ServedContestant::describe(PlanResult& result, std::size_t turn) const {
  result.mesh = mesh_of(job_.plan);
  result.threads = std::max(1, static_cast<int>(job_.train.threads) / result.mesh.size());
  result.divided = false;
  result.step_ms = {};
  result.step_ms.undivided = 1e3 * static_cast<double>(job_.train.batch) / images_per_s(turn);
  result.served = found_;
  const auto steps = static_cast<double>(timed_steps_);
  for (double& bytes : result.served->sent) bytes /= steps;
  for (double& bytes : result.served->received) bytes /= steps;
  result.served->mean_staleness /= steps;
}

}  // namespace

std::unique_ptr<Contestant> make_served_contestant(ServedContestantArgs args) {
  return std::make_unique<ServedContestant>(std::move(args));
}

}  // namespace trifold
