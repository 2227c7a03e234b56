#include "runtime/cluster/served_learner.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include <spdlog/spdlog.h>

#include "core/error.h"
#include "runtime/train/job_data.h"
#include "runtime/train/shard_data.h"

namespace trifold {
namespace {

constexpr std::chrono::milliseconds kLookAfter{100};
// Workers say how they differ before they go on. Who has not after so long, with a manager between that is gone, won't.
constexpr std::chrono::seconds kPatienceForDifferences{60};

std::string state_name(const std::string& tensor, const std::string& state) {
  return "optimizer." + tensor + "." + state;
}

std::span<const float> floats_of(const NamedTensor& tensor) {
  return {reinterpret_cast<const float*>(tensor.data.data()), tensor.data.size() / sizeof(float)};
}

}  // namespace

ServedLearner::ServedLearner(const Job& job, std::shared_ptr<const Dataset> train_set, ClusterSide& cluster)
    : alone_(job_of_one_rank(job)),
      train_set_(std::move(train_set)),
      cluster_(cluster),
      model_(alone_),
      steps_per_epoch_(clocks_per_epoch(job, train_set_->size())),
      progress_([&cluster](const TrainingState& state) { return cluster.keep_progress(state); }) {
  if (steps_per_epoch_ == 0)
    fail_input("{}: {} training samples are no batch of {}", job.file.string(), train_set_->size(), job.train.batch);
  // Shares of every batch are even. Of others it is shown how uneven they are; rules that weigh do it by samples.
  if (job.data.division.kind != DivisionKind::batch) division_ = ShardData(job, train_set_).describe();
  while (division_.ends_with('\n')) division_.pop_back();
  plan_ = plan_service(job, model_.served_tensors(), steps_per_epoch_);
  layout_ = plan_.layout();
  state_names_ = plan_.update()->state_names();
}

void ServedLearner::initialize(std::uint64_t seed) {
  model_.initialize(seed);
  begins_ = true;
}

void ServedLearner::load(const SafetensorsFile& file) {
  model_.load(file, Model::Contents::model);
  bool lacks = false;
  for (const ServedTensor& tensor : plan_.tensors) {
    if (!tensor.trained) continue;
    for (const std::string& state : state_names_) {
      const std::string name = state_name(tensor.name, state);
      const NamedTensor* found = file.find(name);
      if (found == nullptr || found->data.size() != static_cast<std::size_t>(tensor.elements) * sizeof(float)) {
        lacks = true;
        continue;
      }
      const std::span<const float> values = floats_of(*found);
      loaded_[name].assign(values.begin(), values.end());
    }
  }
  if (lacks) spdlog::info("the checkpoint has no state of the servers' optimiser, or of another: it begins anew");
}

// By slice: the model here, and the optimiser's state as loaded or as it begins.
std::vector<SliceState> ServedLearner::first_states() const {
  const Model::Snapshot snapshot = model_.snapshot(Model::Contents::model);
  const std::vector<float> initial = plan_.update()->initial_states();
  std::vector<SliceState> states;
  for (const Slice& slice : layout_.slices) {
    const ServedTensor& tensor = layout_.tensors[static_cast<std::size_t>(slice.tensor)];
    const auto named = std::ranges::find(snapshot.tensors(), tensor.name, &NamedTensor::name);
    TRIFOLD_CHECK(named != snapshot.tensors().end(), "the model has no '{}'", tensor.name);
    const auto part = [&](std::span<const float> whole) {
      return std::make_shared<std::vector<float>>(whole.begin() + slice.begin, whole.begin() + slice.end);
    };
    SliceState state{.values = part(floats_of(*named)),
                     .version = 1,
                     .updates = tensor.turns.count_before(steps_),
                     .applied = std::vector<std::int64_t>(static_cast<std::size_t>(layout_.shards), steps_)};
    for (std::size_t i = 0; tensor.trained && i < state_names_.size(); ++i) {
      const auto loaded = loaded_.find(state_name(tensor.name, state_names_[i]));
      state.states.push_back(loaded != loaded_.end()
                                 ? part(loaded->second)
                                 : std::make_shared<std::vector<float>>(slice.elements(), initial[i]));
    }
    states.push_back(std::move(state));
  }
  return states;
}

void ServedLearner::begin(std::int64_t epoch, std::int64_t step_of_epoch) {
  steps_ = epoch * steps_per_epoch_ + step_of_epoch;
  const Model::Snapshot snapshot = model_.snapshot(Model::Contents::model);
  for (const NamedTensor& tensor : snapshot.tensors()) shapes_.emplace(tensor.name, tensor.shape);
  if (!division_.empty()) spdlog::info("the data is divided {}", division_);
  manager_ = &cluster_.open(plan_);
  using Offer = ClusterManager::Offer;
  manager_->offer(first_states(), begins_ && steps_ > 0 ? Offer::clocks : Offer::model);
}

void ServedLearner::show_on(LiveBoard& board) {
  display_.emplace(board, alone_, plan_, *manager_);
}

// By whoever waits for it.
void ServedLearner::look_after_cluster() {
  cluster_.look_after_members();
  release_cuts();  // servers may wait for it before they take the pushes that are waited for here
  if (display_) display_->update(steps_);
}

void ServedLearner::on_durable_progress(const TrainingState& state) {
  progress_.reached(state, DurableProgress::Time::clock::now());
}

void ServedLearner::release_cuts() {
  progress_.try_again(DurableProgress::Time::clock::now());
  if (const auto cut = progress_.take_unneeded_cut()) manager_->release_cuts(*cut);
}

// The batch's loss is the mean over the samples of all shards that reported; a lost worker may have kept its own.
Executable::Report ServedLearner::step(const StepContext& context, bool) {
  if (plan_.rules().cuts_at(steps_)) progress_.done_with(steps_);
  release_cuts();
  while (!manager_->wait_for(context.updates - 1, kLookAfter)) look_after_cluster();
  const std::map<int, ShardReport> reports = manager_->take_reports(context.updates - 1);
  steps_ = context.updates;
  paces_.add(reports);
  if (display_) display_->update(steps_);
  Executable::Report sum;
  std::int64_t samples = 0;
  for (const auto& [shard, report] : reports) {
    sum.loss += report.loss * static_cast<double>(report.samples);
    sum.correct += report.correct;
    samples += report.samples;
    losses_[shard].sum += report.loss;
    losses_[shard].steps += 1;
  }
  samples_ = samples;
  if (samples == 0) return last_;
  const double batch = static_cast<double>(alone_.train.batch);
  last_ = {.loss = sum.loss / static_cast<double>(samples),
           .correct = sum.correct * batch / static_cast<double>(samples)};
  return last_;
}

void ServedLearner::wait_until_applied(std::int64_t clock) {
  while (std::ranges::min(cluster_.client().least_applied()) < clock) {
    look_after_cluster();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

const FetchedModel& ServedLearner::fetch() {
  if (fetched_ && fetched_at_ == steps_) return *fetched_;
  if (plan_.rules().cuts_at(steps_)) {
    wait_until_applied(steps_);  // reports come before the last push is applied
    fetched_ = cluster_.client().fetch_all(steps_);
  } else {
    // Between cuts there is a state to save only at the end, when all have stopped.
    manager_->stop(steps_, "end");
    wait_until_applied(steps_);
    fetched_ = cluster_.client().fetch_all();
  }
  fetched_at_ = steps_;
  return *fetched_;
}

Score ServedLearner::evaluate(const std::shared_ptr<const Dataset>& dataset, EvaluationDetails* details) {
  const FetchedModel& fetched = fetch();
  for (std::size_t i = 0; i < fetched.tensors.size(); ++i) model_.write(static_cast<int>(i), fetched.tensors[i].values);
  const std::unique_ptr<Loader> loader = make_evaluation_loader(alone_, dataset, model_.batch_share());
  return model_.evaluate(*loader, details);
}

Model::Snapshot ServedLearner::snapshot(Model::Contents contents) {
  Model::Snapshot snapshot;
  if (contents == Model::Contents::gradients) return snapshot;  // the workers', and gone
  const FetchedModel& fetched = fetch();
  for (std::size_t i = 0; i < fetched.tensors.size(); ++i) {
    const ServedTensor& tensor = layout_.tensors[i];
    const Shape& shape = shapes_.at(tensor.name);
    snapshot.add(tensor.name, shape, {}, fetched.tensors[i].values);
    if (!tensor.trained || contents == Model::Contents::model) continue;
    for (std::size_t k = 0; k < state_names_.size(); ++k)
      snapshot.add(state_name(tensor.name, state_names_[k]), shape, {}, fetched.tensors[i].states[k]);
  }
  return snapshot;
}

std::vector<Metric> ServedLearner::metrics_of_step() const {
  return paces_.metrics_of_step(plan_.sync);
}

std::vector<std::string> ServedLearner::closing_lines() const {
  return paces_.describe(plan_.sync);
}

// The largest of all nodes; none where that of one is not known.
std::optional<NodeFigures> ServedLearner::nodes_of_epoch() {
  NodeFigures figures{.shards = layout_.shards};
  for (const auto& [shard, loss] : std::exchange(losses_, {}))
    figures.losses[shard] = loss.sum / static_cast<double>(loss.steps);
  if (alone_.train.stop.model_distance == 0 && alone_.train.stop.output_kl == 0) return figures;
  NodeReports& nodes = manager_->nodes();
  const auto deadline = std::chrono::steady_clock::now() + kPatienceForDifferences;
  while (!nodes.wait_for_differences(steps_ - 1, kLookAfter) && std::chrono::steady_clock::now() < deadline)
    look_after_cluster();
  const std::map<int, ShardDifference> differences = nodes.take_differences(steps_ - 1);
  const auto largest = [&](std::optional<double> ShardDifference::*figure) -> std::optional<double> {
    std::optional<double> found;
    if (static_cast<std::int64_t>(differences.size()) < plan_.participation().count() - plan_.sync.backup)
      return std::nullopt;
    for (const auto& [shard, difference] : differences) {
      if (!(difference.*figure)) return std::nullopt;
      found = std::max(found.value_or(0), *(difference.*figure));
    }
    return found;
  };
  figures.model_distance = largest(&ShardDifference::distance);
  figures.output_kl = largest(&ShardDifference::kl);
  return figures;
}

// Workers are ahead. The servers know by how much once they have heard that they are to stop: they take no later push.
std::int64_t ServedLearner::steps_until_end(std::int64_t steps) {
  for (std::int64_t end = std::max(steps, manager_->farthest() + 2);;) {
    const std::int64_t version = manager_->stop(end, "asked to");
    std::int64_t farthest = 0;
    bool heard = true;
    for (const ServerStatus& server : cluster_.client().status()) {
      heard = heard && server.view >= version;
      for (const SliceStatus& slice : server.slices) farthest = std::max(farthest, std::ranges::max(slice.applied));
    }
    look_after_cluster();
    if (!heard)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    else if (farthest <= end)
      return end;
    end = std::max(end, farthest);
  }
}

}  // namespace trifold
