#include "runtime/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "core/process_memory.h"
#include "core/stopwatch.h"
#include "runtime/checkpoint/atomic_file.h"
#include "runtime/train/job_data.h"
#include "runtime/train/parallel_learner.h"
#include "runtime/train/run_checkpoints.h"
#include "runtime/train/run_evaluation.h"
#include "runtime/train/stop_rules.h"
#include "runtime/train/training_totals.h"

namespace trifold {

struct Trainer::Impl {
  Impl(const Job& given, TrainerOptions given_options)
      : job(given),
        options(std::move(given_options)),
        observers(is_primary() ? options.observers : std::vector<TrainingObserver*>{}),
        train_set(open_split(job, Split::train)),
        test_set(open_split(job, Split::test)),
        stop(job.train.stop),
        checkpoints(job.train.checkpoint) {
    if (options.takes_over) options.mode = RunFolder::holds_run(run_path()) ? RunMode::resume : RunMode::fresh;
    if (options.mode != RunMode::overwrite) open_folder();
    job.model.class_weights = loss_class_weights(job, *train_set);
    learner = options.make_learner ? options.make_learner(job, train_set)
                                   : std::make_unique<ParallelLearner>(job, train_set, options.world);
    evaluation.emplace(job, test_set, *learner, observers);
    state.seed = job.train.seed;
    if (options.takes_over)
      take_over();
    else if (options.mode == RunMode::resume)
      restore();
    else
      learner->initialize(job.train.seed);

    if (const auto scale = learner->loss_scale()) next_scale = scale->scale;

    const std::int64_t batch = job.train.batch;
    learner->begin(state.epoch, state.position_in_epoch / batch);
    steps_per_epoch = learner->steps_per_epoch();
    if (state.position_in_epoch >= steps_per_epoch * batch)
      fail_input("the checkpoint belongs to a larger training set");
    say_what_is_left_out();
    // The old run goes only now that the new one is known to be able to start.
    if (options.mode == RunMode::overwrite) open_folder();
    if (!is_primary()) return;
    write_file_atomically(folder->job_json(), to_json_text(job));
    observers.tell(&TrainingObserver::on_begin,
                   RunStart{.job = job,
                            .folder = *folder,
                            .resumed_at = options.mode == RunMode::resume ? std::optional(state.step) : std::nullopt,
                            .learner = *learner});
    checkpoints.write_into(*folder);
    learner->on_durable_progress(state_now());
  }

  // Plans need whole batches. (Shards of parameter servers that do not come from the batch go round on their own.)
  void say_what_is_left_out() {
    const std::int64_t left_out = train_set->size() - steps_per_epoch * job.train.batch;
    const bool divides_batches = job.data.division.kind == DivisionKind::batch;
    if (left_out <= 0 || (job.plan.servers && (job.plan.servers->federated || !divides_batches))) return;
    say(
        fmt::format("each epoch leaves out {} of the {} training samples, others each time: they do not fill a "
                    "batch of {}",
                    left_out, train_set->size(), job.train.batch));
  }

  void say(const std::string& line) const { observers.tell(&TrainingObserver::on_message, line); }

  // In a world, process 0 writes files and shows progress.
  bool is_primary() const { return options.world == nullptr || options.world->first(); }

  void open_folder() {
    if (!is_primary()) return;
    folder.emplace(RunFolder::Args{.root = options.runs, .name = run_name(), .mode = options.mode});
  }

  const std::string& run_name() const { return options.name.empty() ? job.name : options.name; }
  std::filesystem::path run_path() const { return options.runs / run_name(); }

  // --- where it begins

  std::optional<Checkpoint> find_checkpoint() {
    return newest_checkpoint(folder ? &*folder : nullptr, options.world,
                             [this](const std::string& line) { observers.tell(&TrainingObserver::on_warning, line); });
  }

  void restore() {
    const std::optional<Checkpoint> checkpoint = find_checkpoint();
    if (!checkpoint) {
      // Killed before the first checkpoint: the run begins again.
      learner->initialize(job.train.seed);
      return;
    }
    state = checkpoint->state;
    if (options.world != nullptr) options.world->at_step(state.step);
    if (state.seed != job.train.seed)
      fail_input("{} was made with seed {}, the job has {}", checkpoint->file.string(), state.seed, job.train.seed);
    if (state.position_in_epoch % job.train.batch != 0)
      fail_input("{} was made with another train.batch than {}", checkpoint->file.string(), job.train.batch);
    learner->load(checkpoint->contents);
    checkpoints.loaded(state);
    go_on_from_state();
    say(fmt::format("resumed from {} ({} epochs, {} steps done)", checkpoint->file.string(), state.epoch, state.step));
  }

  // The model is with those who do the steps; a checkpoint of just this step would do as well.
  void take_over() {
    std::optional<Checkpoint> checkpoint;
    if (options.mode == RunMode::resume) checkpoint = find_checkpoint();
    state = *options.takes_over;
    if (checkpoint && checkpoint->state.step == state.step) {
      learner->load(checkpoint->contents);
      checkpoints.loaded(state);
    } else {
      learner->initialize(job.train.seed);
    }
    go_on_from_state();
    say(fmt::format("takes over after {} epochs, {} steps", state.epoch, state.step));
  }

  void go_on_from_state() {
    stop.restore(state.counters);
    totals.restore(state.counters);
    outcome.train_loss = counter(state.counters, "train_loss");
    evaluation->restore(state);
  }

  const TrainingState& state_now() {
    state.counters = stop.state();
    totals.save(state.counters);
    state.counters["train_loss"] = outcome.train_loss;
    evaluation->save(state.counters);
    return state;
  }

  void save() {
    checkpoints.save(*learner, state_now());
    writes_checkpoint = true;
    observers.tell(&TrainingObserver::on_checkpoint_begun, state.step);
  }

  void look_after_checkpoint() {
    checkpoints.check();
    if (!writes_checkpoint || checkpoints.writing()) return;
    writes_checkpoint = false;
    observers.tell(&TrainingObserver::on_checkpoint_written);
  }

  // --- one update

  void train_step() {
    const Stopwatch stopwatch;
    const TrainConfig& train = job.train;
    const std::int64_t total_steps = steps_per_epoch * train.epochs;
    StepContext context{.seed = train.seed,
                        .first_sample = 0,
                        .learning_rate = learning_rate(train.schedule, state.step, steps_per_epoch, total_steps),
                        .updates = state.step + 1};
    gradient_scale = next_scale;
    const auto [loss, correct] = learner->step(context, state.step + 1 < total_steps);
    if (!std::isfinite(loss))
      fail_runtime(
          "the loss became {} at step {} (epoch {}); lower train.optimizer.lr, add warm-up or set train.clip_norm",
          loss, state.step + 1, state.epoch + 1);

    state.step += 1;
    if (options.world != nullptr) options.world->at_step(state.step);
    state.position_in_epoch += train.batch;
    rate = context.learning_rate;
    const double seconds = stopwatch.seconds();
    const std::int64_t images = learner->samples_of_step();
    totals.add_step(loss, correct, seconds, images);
    const auto scale = learner->loss_scale();
    if (scale) next_scale = scale->scale;

    StepReport report{.step = state.step, .epoch = state.epoch + 1, .steps_per_epoch = steps_per_epoch, .loss = loss};
    report.step_of_epoch = state.position_in_epoch / train.batch;
    report.epoch_loss = totals.epoch_loss / static_cast<double>(report.step_of_epoch);
    if (classifies()) {
      report.accuracy = correct / static_cast<double>(train.batch);
      report.epoch_accuracy = totals.epoch_correct / static_cast<double>(state.position_in_epoch);
    }
    report.learning_rate = rate;
    report.images_per_s = static_cast<double>(images) / seconds;
    report.trained_seconds = totals.trained_seconds;
    report.loss_scale = scale;
    report.learner_metrics = learner->metrics_of_step();
    report.images = totals.run_images;
    report.images_left = (total_steps - state.step) * train.batch;
    report.seconds = totals.run_seconds;
    report.input_wait_fraction = learner->waited_for_input_ms() / 1000.0 / totals.run_seconds;
    observers.tell(&TrainingObserver::on_step, report);
  }

  bool classifies() const { return !is_regression(job); }  // no accuracy without classes

  // --- one epoch

  EpochSummary finish_epoch() {
    EpochSummary summary{.epoch = state.epoch + 1, .epochs = job.train.epochs, .step = state.step};
    summary.train_loss = totals.epoch_loss / static_cast<double>(steps_per_epoch);
    if (classifies())
      summary.train_accuracy = totals.epoch_correct / static_cast<double>(steps_per_epoch * job.train.batch);
    summary.learning_rate = rate;
    summary.images_per_s = totals.epoch_rate();
    const bool last = state.epoch + 1 == job.train.epochs;
    if ((state.epoch + 1) % job.train.eval_every == 0 || last) {
      evaluation->evaluate(state, state.epoch + 1,
                           last ? RunEvaluation::Detail::samples : RunEvaluation::Detail::score);
      summary.test_loss = evaluation->loss();
      summary.test_accuracy = evaluation->accuracy();
    }
    summary.best_test_accuracy = RunEvaluation::best_accuracy(state);
    if (job.train.tensorboard.histograms) show_tensors();
    outcome.train_loss = summary.train_loss;
    state.epoch += 1;
    state.position_in_epoch = 0;
    totals.end_epoch();
    outcome.epochs = state.epoch;
    return summary;
  }

  // Looking at the model must not change what is trained: replicas that update on their own are shown only where an
  // evaluation has averaged them already. Every process takes part in the snapshot.
  void show_tensors() {
    if (learner->evaluation_merges_replicas() && !evaluation->is_of(state)) return;
    const auto show = [&](std::string_view kind, Model::Contents contents, double scale) {
      observers.tell(&TrainingObserver::on_tensors, kind, learner->snapshot(contents), scale);
    };
    show("weights", Model::Contents::model, 1);
    show("gradients", Model::Contents::gradients, 1 / gradient_scale);
  }

  void show_nodes(const NodeFigures& nodes, std::int64_t epoch) {
    std::vector<Metric> values;
    if (nodes.model_distance) values.push_back({"model_distance", *nodes.model_distance});
    if (nodes.output_kl) values.push_back({"output_kl", *nodes.output_kl});
    if (job.train.stop.each_node) values.push_back({"finished_nodes", static_cast<double>(stop.finished_nodes())});
    if (!values.empty()) observers.tell(&TrainingObserver::on_nodes, state.step, epoch, values);
  }

  enum class StopRequest { none, minutes, interrupt };

  // Why training ends before the next step, if it does. A signal may reach any process; process 0 has the clock.
  StopRequest stop_request() const {
    StopRequest request = StopRequest::none;
    if (is_primary() && stop.out_of_time(totals.trained_seconds / 60)) request = StopRequest::minutes;
    if (options.interrupt != nullptr && options.interrupt->load()) request = StopRequest::interrupt;
    if (options.world == nullptr) return request;
    const std::vector<StopRequest> requests = options.world->gather(request);
    return *std::ranges::max_element(requests);
  }

  // Trains until something says stop; the rule's name.
  std::string train() {
    StopRequest request = learner->asked_to_end() ? StopRequest::interrupt : StopRequest::none;
    std::int64_t last_step = request == StopRequest::none ? -1 : learner->steps_until_end(state.step);
    while (state.epoch < job.train.epochs) {
      while (state.position_in_epoch < steps_per_epoch * job.train.batch) {
        if (last_step < 0) {
          request = stop_request();
          if (request != StopRequest::none) last_step = learner->steps_until_end(state.step);
        }
        if (state.step == last_step) return request == StopRequest::minutes ? "minutes" : "interrupt";
        train_step();
        look_after_checkpoint();
        if (state.position_in_epoch < steps_per_epoch * job.train.batch && checkpoints.due(state)) {
          save();
          learner->on_durable_progress(state_now());
        }
      }
      const EpochSummary summary = finish_epoch();
      observers.tell(&TrainingObserver::on_epoch, summary);
      if (options.world != nullptr) totals.trained_seconds = options.world->from_first(totals.trained_seconds);
      const std::optional<NodeFigures> nodes = learner->nodes_of_epoch();
      const auto rule =
          stop.after_epoch({summary.train_loss, summary.test_accuracy, totals.trained_seconds / 60, nodes});
      if (nodes) show_nodes(*nodes, summary.epoch);
      if (rule) return *rule;
      if (checkpoints.due(state)) save();
      learner->on_durable_progress(state_now());
    }
    return "epochs";
  }

  TrainingOutcome run() {
    if (is_primary()) outcome.folder = folder->path();
    outcome.epochs = state.epoch;
    outcome.stopped_by = train();
    for (const std::string& line : learner->closing_lines()) say(line);
    observers.tell(&TrainingObserver::on_training_end);
    observers.tell(&TrainingObserver::on_stage, TrainingObserver::Stage::ending);
    if (state.position_in_epoch > 0)
      outcome.train_loss =
          totals.epoch_loss * static_cast<double>(job.train.batch) / static_cast<double>(state.position_in_epoch);
    if (!checkpoints.has(state)) save();
    // What is reported is the score of the model that was saved, or none: Ctrl-C does not wait for one.
    bool has_details = totals.run_images == 0 && is_primary() && std::filesystem::exists(folder->evaluation_json());
    if (options.world != nullptr) has_details = options.world->from_first(has_details);
    evaluation->evaluate_last(state, outcome.stopped_by == "interrupt", has_details);
    observers.tell(&TrainingObserver::on_stage, TrainingObserver::Stage::ending);
    checkpoints.finish();
    outcome.checkpoints = checkpoints.times();
    outcome.steps = state.step;
    outcome.test_loss = evaluation->loss();
    outcome.test_accuracy = evaluation->accuracy();
    outcome.images_per_s = totals.run_rate();
    outcome.peak_bytes = learner->device_bytes() > 0 ? learner->device_bytes() : peak_process_bytes();
    return outcome;
  }

  Job job;
  TrainerOptions options;
  Observers observers;
  std::shared_ptr<const Dataset> train_set;
  std::shared_ptr<const Dataset> test_set;
  StopDecision stop;
  RunCheckpoints checkpoints;
  std::optional<RunFolder> folder;  // process 0
  std::unique_ptr<Learner> learner;
  std::optional<RunEvaluation> evaluation;

  TrainingState state;
  TrainingTotals totals;
  TrainingOutcome outcome;
  std::int64_t steps_per_epoch = 0;
  double rate = 0;            // of learning, at the last step
  double next_scale = 1;      // of the loss, in fp16, at the next step
  double gradient_scale = 1;  // that the gradients of the last step carry
  bool writes_checkpoint = false;
};

Trainer::Trainer(const Job& job, TrainerOptions options) {
  TRIFOLD_CHECK(!job.plan.servers || options.make_learner, "parameter servers need a learner of their own");
  impl_ = std::make_unique<Impl>(job, std::move(options));
}
Trainer::~Trainer() = default;

TrainingOutcome Trainer::run() {
  return impl_->run();
}

}  // namespace trifold
