#include "insight/compare/compare.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "insight/compare/parallel_contestant.h"
#include "insight/compare/served_contestant.h"
#include "insight/compare/slowdown.h"
#include "insight/compare/trace_files.h"
#include "insight/work/median.h"
#include "runtime/train/device_choice.h"
#include "runtime/train/job_data.h"

namespace trifold {
namespace {

class Rounds {
 public:
  Rounds(const PlanList& list, const CompareOptions& options) : list_(list), options_(options) {
    const Job& job = list.plans[list.single].job;
    data_ = open_split(job, Split::train);
    weighted_ = list.plans;
    for (ComparedPlan& plan : weighted_) plan.job.model.class_weights = loss_class_weights(job, *data_);
    if (options.trace) {
      std::vector<std::string> names;
      for (const ComparedPlan& plan : weighted_) names.push_back(plan.name);
      traces_ = trace_files_of(names);
    }
    for (std::size_t i = 0; i < weighted_.size(); ++i) plans_.push_back(contestant(i));
    differences_.resize(plans_.size());
    const std::int64_t limit = job.train.memory_limit_bytes;
    const Device& device = *choose_device(job.plan.device, job.train.own_kernels).device;
    room_ = (limit > 0 ? static_cast<std::size_t>(limit) : device.memory_bytes()) / 2;
  }

  void run() {
    for (int round = 0; round < options_.rounds; ++round) {
      const int steps = options_.steps * (round + 1) / options_.rounds - options_.steps * round / options_.rounds;
      std::vector<double> rates(plans_.size());
      for (const std::size_t index : order_of(round)) {
        plans_[index]->take_turn(steps);
        rates[index] = plans_[index]->images_per_s(static_cast<std::size_t>(round));
        if (round == 0) look_at_gradients(index);
        if (!all_fit()) plans_[index]->put_away();
      }
      if (options_.on_round) options_.on_round(round, rates);
    }
    for (const auto& plan : plans_) plan->finish();
    look_at_rounding();
  }

  Comparison result() const {
    const Job& job = list_.plans[list_.single].job;
    Comparison found{.job = job.name,
                     .batch = job.train.batch,
                     .steps = options_.steps,
                     .rounds = options_.rounds,
                     .cores = list_.cores,
                     .has_batch_norm = list_.has_batch_norm,
                     .bn_group = job.train.bn_group,
                     .asked_group = list_.asked_group,
                     .plans = {},
                     .loss_rounding = loss_rounding_,
                     .gradient_rounding = gradient_rounding_,
                     .single = list_.single};
    for (std::size_t i = 0; i < plans_.size(); ++i) found.plans.push_back(result_of(i));
    const PlanResult single = found.plans[found.single];
    for (PlanResult& plan : found.plans) {
      plan.speedup = plan.images_per_s / single.images_per_s;
      const double used = plan.divided || plan.served ? static_cast<double>(cores_used(plan, found.cores)) / found.cores
                                                      : static_cast<double>(plan.mesh.size());
      plan.efficiency = plan.speedup / used;
      plan.loss_difference = largest_difference(plan.losses, single.losses);
      if (plan.served) continue;
      plan.arithmetic /= single.arithmetic;
      plan.repeated /= single.arithmetic;
    }
    const auto slower = [](const PlanResult& a, const PlanResult& b) { return a.images_per_s < b.images_per_s; };
    found.winner = static_cast<std::size_t>(std::ranges::max_element(found.plans, slower) - found.plans.begin());
    for (std::size_t i = 0; i < found.plans.size(); ++i)
      found.plans[i].why =
          i == found.winner ? "the fastest" : explain_slowdown(found.plans[i], found.plans[found.winner], found.cores);
    return found;
  }

 private:
  // The single run goes first, for the others' gradients are held against its; then there and back.
  std::vector<std::size_t> order_of(int round) const {
    std::vector<std::size_t> order(plans_.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order.front(), order[list_.single]);
    if (round % 2 == 1) std::ranges::reverse(order);
    return order;
  }

  std::unique_ptr<Contestant> contestant(std::size_t index) const {
    const ComparedPlan& plan = weighted_[index];
    if (plan.job.plan.servers)
      return make_served_contestant(
          {.plan = plan, .data = data_, .cores = list_.cores, .steps = options_.steps, .program = options_.program});
    return std::make_unique<ParallelContestant>(
        ContestantArgs{.plan = plan,
                       .data = data_,
                       .cores = list_.cores,
                       .file = options_.folder / fmt::format("state-{}.safetensors", index),
                       .trace = options_.trace ? options_.folder / traces_[index] : std::filesystem::path()});
  }

  void look_at_gradients(std::size_t index) {
    if (const Gradients* gradients = plans_[index]->gradients())
      differences_[index] = largest_difference(*gradients, *plans_[list_.single]->gradients());
    if (index != list_.single) plans_[index]->forget_gradients();
  }

  void look_at_rounding() {
    const Contestant& single = *plans_[list_.single];
    ParallelContestant rounded({single.plan(), data_, list_.cores, {}, FirstWeights::rounded});
    rounded.take_turn(options_.steps);
    loss_rounding_ = largest_difference(rounded.losses(), single.losses()).relative;
    gradient_rounding_ = largest_difference(rounded.first_gradients(), *single.gradients()).relative;
  }

  bool all_fit() const {
    std::size_t bytes = 0;
    for (const auto& plan : plans_) bytes += plan->memory_bytes();
    return bytes <= room_;
  }

  PlanResult result_of(std::size_t index) const {
    const Contestant& plan = *plans_[index];
    PlanResult result;
    result.plan = plan.plan().name;
    std::vector<double> rates;
    for (int round = 0; round < options_.rounds; ++round)
      rates.push_back(plan.images_per_s(static_cast<std::size_t>(round)));
    const std::size_t median = median_of(rates);
    const auto [slowest, fastest] = std::ranges::minmax(rates);
    result.images_per_s = rates[median];
    result.slowest = slowest;
    result.fastest = fastest;
    result.spread = (fastest - slowest) / rates[median];
    result.losses = plan.losses();
    result.gradient_difference = differences_[index];
    plan.describe(result, median);
    return result;
  }

  const PlanList& list_;
  const CompareOptions& options_;
  std::shared_ptr<const Dataset> data_;
  std::vector<ComparedPlan> weighted_;  // with the loss's weights of classes
  std::vector<std::string> traces_;     // files in the folder; none: not asked for
  std::vector<std::unique_ptr<Contestant>> plans_;
  std::vector<GradientDifference> differences_;
  double loss_rounding_ = 0;
  double gradient_rounding_ = 0;
  std::size_t room_ = 0;  // for all models
};

}  // namespace

Comparison compare(const PlanList& list, const CompareOptions& options) {
  if (options.rounds < 1 || options.steps < 2 * options.rounds)
    fail_input("{} steps in {} rounds: a round needs two steps or more, the first to get warm; --steps {} would work",
               options.steps, options.rounds, 2 * std::max(1, options.rounds));
  Rounds rounds(list, options);
  rounds.run();
  return rounds.result();
}

}  // namespace trifold
