#include "runtime/cluster/model_work.h"

#include <cmath>
#include <utility>

#include "core/error.h"
#include "runtime/cluster/cluster_plan.h"
#include "runtime/config/learning_schedule.h"
#include "runtime/train/job_data.h"

namespace trifold {
namespace {

// The job of one shard, as its model is compiled.
Job job_of_shard(const Job& job, const Dataset& training_set) {
  Job own = shard_job(job);
  own.model.class_weights = loss_class_weights(job, training_set);
  return own;
}

}  // namespace

ModelWork::ModelWork(const Job& job, std::shared_ptr<const Dataset> training_set)
    : job_(job),
      clocks_per_epoch_(clocks_per_epoch(job, training_set->size())),
      data_(job, training_set),
      own_(job_of_shard(job, *training_set)),
      model_(own_, nullptr, Updates::elsewhere),
      tensors_(plan_service(job, model_.served_tensors(), clocks_per_epoch_).tensors),
      partial_(job_.plan.servers->partial()) {
  const ServerSync& sync = *job_.plan.servers;
  if (sync.federated)
    local_args_ = {.optimizer = make_optimizer_update(job_.train.optimizer), .proximal = sync.federated->proximal};
  else if (sync.period > 1 || partial_)
    local_args_.emplace();
  model_.exchange_with(&route_);
  if (job_.train.stop.output_kl > 0)
    probe_ = make_evaluation_loader(own_, open_split(job_, Split::test), model_.batch_share())->next();
}

std::int64_t ModelWork::clocks() const {
  return clocks_per_epoch_ * job_.train.epochs;
}

double ModelWork::learning_rate(std::int64_t clock) const {
  return trifold::learning_rate(job_.train.schedule, clock, clocks_per_epoch_, clocks());
}

std::int64_t ModelWork::steps_of_clock(int shard) const {
  const ServerSync& sync = *job_.plan.servers;
  return sync.federated ? sync.federated->local_epochs * data_.steps_per_epoch(shard) : sync.period;
}

ModelWork::Local& ModelWork::local_of(int shard) {
  return locals_.try_emplace(partial_ ? shard : 0, tensors_, *local_args_).first->second;
}

// What was synchronised since the shard's last clock. One that does a clock again has lost its own.
bool ModelWork::needs(int shard, std::int64_t clock, int tensor) const {
  if (!partial_) return true;
  const auto local = locals_.find(shard);
  if (local == locals_.end() || local->second.clock < 0 || local->second.clock >= clock) return true;
  return tensors_[static_cast<std::size_t>(tensor)].turns.next(local->second.clock) < clock;
}

void ModelWork::give_up(int shard) {
  if (partial_) locals_.erase(shard);
  streams_.erase(shard);
  left_with_.erase(shard);
}

ShardWork::Result ModelWork::compute(int shard, std::int64_t clock, ParameterExchange& exchange) {
  const Result result = train(shard, clock, exchange);
  left_with_.erase(shard);
  if (!compares_after(clock)) return result;
  std::vector<std::vector<float>>& values = left_with_[shard];
  if (local_args_) {
    values = local_of(shard).training.values();
  } else {
    // What it worked with, which others may have moved on since.
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      model_.read(static_cast<int>(i), values.emplace_back(static_cast<std::size_t>(tensors_[i].elements)));
  }
  return result;
}

bool ModelWork::compares_after(std::int64_t clock) const {
  const StopRules& stop = job_.train.stop;
  return (stop.model_distance > 0 || stop.output_kl > 0) && (clock + 1) % clocks_per_epoch_ == 0;
}

std::optional<NodeDifference> ModelWork::compare(int shard, const std::vector<std::vector<float>>& common) {
  const auto found = left_with_.find(shard);
  if (found == left_with_.end()) return std::nullopt;
  const std::vector<std::vector<float>> node = std::move(found->second);
  left_with_.erase(found);
  NodeDifference difference{.distance = relative_distance(tensors(), node, common)};
  if (!probe_) return difference;
  std::vector<std::vector<float>> beside = common;
  for (std::size_t i = 0; i < beside.size(); ++i)
    if (beside[i].empty()) beside[i] = node[i];
  const std::vector<float> outputs = outputs_with(node);
  difference.kl = mean_kl(outputs, outputs_with(beside), own_.model.classes);
  return difference;
}

// The next clock asks for all values anew.
std::vector<float> ModelWork::outputs_with(const std::vector<std::vector<float>>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) model_.write(static_cast<int>(i), values[i]);
  return model_.outputs(*probe_);
}

ShardWork::Result ModelWork::train(int shard, std::int64_t clock, ParameterExchange& exchange) {
  if (!local_args_) return step(shard, clock, clock, exchange);
  std::vector<bool> from_servers, pushed;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    from_servers.push_back(needs(shard, clock, static_cast<int>(i)));
    pushed.push_back(tensors_[i].turns.at(clock));
  }
  Local& local = local_of(shard);
  local.clock = -1;  // until it is whole
  local.training.begin(exchange, from_servers);
  const std::int64_t steps = steps_of_clock(shard);
  Result sum;
  for (std::int64_t i = 0; i < steps; ++i) {
    local.training.next_step(learning_rate(clock));
    const Result one = step(shard, clock * steps + i, clock, local.training);
    sum.loss += one.loss / static_cast<double>(steps);
    sum.correct += one.correct;
    sum.samples += one.samples;
  }
  local.training.end(exchange, pushed);
  local.clock = clock;
  return sum;
}

ShardWork::Result ModelWork::step(int shard, std::int64_t step, std::int64_t clock, ParameterExchange& exchange) {
  auto found = streams_.find(shard);
  if (found == streams_.end() || found->second.next != step)
    found = streams_.insert_or_assign(shard, Stream{data_.loader(shard, step), step}).first;
  // A step that does not end leaves a loader that cannot go on: it is made anew then.
  Stream stream = std::move(found->second);
  streams_.erase(found);
  route_.to = &exchange;
  model_.start_step(
      &stream.loader->next(),
      {.seed = job_.train.seed, .first_sample = 0, .learning_rate = learning_rate(clock), .updates = step + 1});
  const Executable::Report report = model_.finish_step();
  stream.loader->release();
  stream.next += 1;
  streams_.insert_or_assign(shard, std::move(stream));
  if (!std::isfinite(report.loss))
    fail_runtime("the loss of shard {} became {} at clock {}; lower train.optimizer.lr or add warm-up", shard,
                 report.loss, clock);
  return {.loss = report.loss, .correct = report.correct, .samples = own_.train.batch};
}

}  // namespace trifold
