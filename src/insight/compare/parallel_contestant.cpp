#include "insight/compare/parallel_contestant.h"

#include <chrono>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "core/philox.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/train/job_data.h"

namespace trifold {
namespace {

// The last two bits of a float.
constexpr float kRounding = 0x1p-22f;

using TurnClock = std::chrono::steady_clock;

double seconds_between(TurnClock::time_point begin, TurnClock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

Arithmetic arithmetic_of(const ParallelModel& model) {
  Arithmetic found;
  const double times = model.plan().pipeline.micro_batches;
  for (int rank = 0; rank < model.plan().mesh.size(); ++rank)
    for (const auto& chunk : model.chunks(rank)) {
      const Program& program = chunk->training().program();
      for (const Node& node : program.graph.nodes) {
        if (node.phase == Phase::update || node.op->is_view()) continue;
        const double flops = times * program.flops(node);
        found.all += flops;
        if (node.repeats_forward) found.repeated += flops;
      }
    }
  return found;
}

void round_weights(const Executable& program) {
  const Graph& graph = program.program().graph;
  for (const Parameter& parameter : graph.parameters) {
    if (graph[parameter.value].role != Role::parameter) continue;
    std::vector<float> values = program.read(parameter.value);
    RandomSequence random(0, Purpose::init, static_cast<std::uint32_t>(parameter.value));
    for (float& value : values) value *= 1 + random.uniform(-kRounding, kRounding);
    program.write(parameter.value, values);
  }
}

StepSplit in_ms(const StepSplit& seconds) {
  return {1e3 * seconds.compute, 1e3 * seconds.exposed_comm, 1e3 * seconds.bubble, 1e3 * seconds.input,
          1e3 * seconds.optimizer};
}

void round_weights(const ParallelModel& model) {
  for (int rank = 0; rank < model.plan().mesh.size(); ++rank)
    for (const auto& chunk : model.chunks(rank)) round_weights(chunk->training());
}

}  // namespace

ParallelContestant::ParallelContestant(ContestantArgs args) : args_(std::move(args)) {
  steps_per_epoch_ = make_training_loader(plan().job, args_.data, 0, 0)->steps_per_epoch();
}

ParallelContestant::~ParallelContestant() {
  std::error_code ignored;
  std::filesystem::remove(args_.file, ignored);
}

void ParallelContestant::make_model() {
  set_thread_count(args_.cores);  // this thread has those of the rank it was last
  try {
    model_ = std::make_unique<ParallelModel>(plan().job);
  } catch (const Error& error) {
    throw Error(error.fault(), fmt::format("plan '{}': {}", plan().name, error.what()));
  }
  fold_ = model_->plan();
  on_host_ = model_->device().host_memory();
  arithmetic_ = arithmetic_of(*model_);
  timed_steps_ = 0;
  if (!args_.trace.empty() && !trace_) {
    if (!on_host_) fail_input("--trace shows the times of kernels, and those of GPUs are not taken here");
    trace_ = std::make_unique<TraceRecorder>(args_.trace, *model_);
  }
  if (losses_.empty()) {
    model_->initialize(plan().job.train.seed);
    if (args_.weights == FirstWeights::rounded) round_weights(*model_);
  } else {
    model_->load(SafetensorsFile(args_.file), Model::Contents::model_and_optimizer);
  }
}

void ParallelContestant::put_away() {
  if (!model_) return;
  write_safetensors(args_.file, model_->snapshot(Model::Contents::model_and_optimizer).tensors(), {});
  model_.reset();
}

TraceStep ParallelContestant::step(Loader& loader, Turn* turn) {
  const TrainConfig& train = plan().job.train;
  const auto done = static_cast<std::int64_t>(losses_.size());
  const StepContext context{
      .seed = train.seed,
      .first_sample = 0,
      .learning_rate = learning_rate(train.schedule, done, steps_per_epoch_, steps_per_epoch_ * train.epochs),
      .updates = done + 1};
  TraceStep times{.number = done, .round = static_cast<std::int32_t>(turns_.size()), .begin = TurnClock::now()};
  const Batch& batch = loader.next();
  times.loaded = TurnClock::now();
  model_->start_step(&batch, context);
  times.worked = TurnClock::now();
  loader.release();
  const double loss = model_->finish_step().loss;
  times.end = TurnClock::now();
  if (turn != nullptr) {
    turn->steps += 1;
    turn->seconds += seconds_between(times.begin, times.end);
    turn->loading += seconds_between(times.begin, times.loaded);
  }
  if (!std::isfinite(loss))
    fail_runtime("plan '{}': the loss became {} at step {}; lower train.optimizer.lr or add warm-up", plan().name, loss,
                 done + 1);
  losses_.push_back(loss);
  return times;
}

void ParallelContestant::take_turn(int steps) {
  if (!model_) make_model();
  set_thread_count(fold_.threads);
  const auto done = static_cast<std::int64_t>(losses_.size());
  const std::unique_ptr<Loader> loader =
      make_training_loader(plan().job, args_.data, done / steps_per_epoch_, done % steps_per_epoch_);
  step(*loader, nullptr);
  if (done == 0) first_gradients_ = gradients_of(*model_);

  Turn turn;
  std::vector<SpanLog> logs(on_host_ ? static_cast<std::size_t>(fold_.mesh.size()) : 0);
  model_->time_steps(on_host_, logs);
  const std::vector<RankWork> before = work_of_ranks(*model_);
  for (int i = 1; i < steps; ++i) {
    for (SpanLog& log : logs) log.clear();
    TraceStep times = step(*loader, &turn);
    if (!trace_) continue;
    if (const auto scale = model_->loss_scale()) times.loss_scale = scale->scale;
    trace_->add(times, logs);
  }
  timeline_ = step_timeline(*model_, logs);
  turn.ranks = work_of_ranks(*model_);
  for (std::size_t rank = 0; rank < before.size(); ++rank) turn.ranks[rank] = turn.ranks[rank].since(before[rank]);
  model_->time_steps(false);
  timed_steps_ += turn.steps;
  turns_.push_back(std::move(turn));
  look_at_model();
}

void ParallelContestant::finish() {
  if (trace_) trace_->finish();
}

double ParallelContestant::images_per_s(std::size_t turn) const {
  return static_cast<double>(plan().job.train.batch) / turns_[turn].seconds_a_step();
}

void ParallelContestant::describe(PlanResult& result, std::size_t index) const {
  const Turn& turn = turns_[index];
  result.mesh = fold_.mesh;
  result.threads = fold_.threads;
  result.divided = on_host_;
  result.step_ms = in_ms(split_of(turn.seconds, turn.loading, turn.steps, turn.ranks));
  if (fold_.mesh.pipeline > 1 && on_host_) {
    const PipelineForecast expected = forecast(fold_.pipeline, fold_.mesh, turn.steps, turn.ranks);
    result.pipeline = {.micro_batches = fold_.pipeline.micro_batches,
                       .stage_ms = expected.stage_seconds,
                       .predicted_bubble_ms = 1e3 * expected.bubble};
    for (double& stage : result.pipeline->stage_ms) stage *= 1e3;
  }
  result.traffic = traffic_;
  result.memory = memory_;
  result.timeline = timeline_;
  result.arithmetic = arithmetic_.all;
  result.repeated = arithmetic_.repeated;
  if (!args_.trace.empty()) result.trace = args_.trace.filename().string();
}

void ParallelContestant::look_at_model() {
  traffic_.clear();
  memory_.clear();
  for (int rank = 0; rank < fold_.mesh.size(); ++rank) {
    traffic_.push_back(traffic_of(*model_, rank, timed_steps_));
    memory_.push_back(memory_use(*model_, rank));
  }
}

}  // namespace trifold
