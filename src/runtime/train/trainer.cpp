#include "runtime/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "core/process_memory.h"
#include "core/stopwatch.h"
#include "core/terminal_color.h"
#include "insight/metrics/progress.h"
#include "runtime/train/folded_learner.h"
#include "runtime/train/job_data.h"
#include "runtime/train/run_checkpoints.h"
#include "runtime/train/run_log.h"
#include "runtime/train/stop_rules.h"

namespace trifold {
struct Trainer::Parts {
  Parts(const Job& given, TrainerOptions given_options)
      : job(given),
        options(std::move(given_options)),
        train_set(open_split(job, Split::train)),
        test_set(open_split(job, Split::test)),
        stop(job.train.stop),
        checkpoints(job.train.checkpoint) {
    options.progress = options.progress && speaks();
    if (options.takes_over) options.mode = RunFolder::holds_run(run_path()) ? RunMode::resume : RunMode::fresh;
    if (options.mode != RunMode::overwrite) open_folder();
    job.model.class_weights = loss_class_weights(job, *train_set);
    learner = options.make_learner ? options.make_learner(job, train_set)
                                   : std::make_unique<FoldedLearner>(job, train_set, options.world);
    classifies = !is_regression(job);
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
    if (!speaks()) return;
    if (options.live != nullptr) learner->show_on(*options.live);
    run_log.emplace(*folder, job, options.mode == RunMode::resume ? std::optional(state.step) : std::nullopt);
    checkpoints.write_into(*folder);
    learner->passed(state_now());
  }

  // Plans need whole batches. (Shards of parameter servers that do not come from the batch go round on their own.)
  void say_what_is_left_out() {
    const std::int64_t left_out = train_set->size() - steps_per_epoch * job.train.batch;
    const bool divides_batches = job.data.division.kind == DivisionKind::batch;
    if (!options.progress || left_out <= 0 || (job.plan.servers && (job.plan.servers->federated || !divides_batches)))
      return;
    progress->say(
        fmt::format("each epoch leaves out {} of the {} training samples, others each time: they do not fill a "
                    "batch of {}",
                    left_out, train_set->size(), job.train.batch));
  }

  // In a world one process speaks for all.
  bool speaks() const { return options.world == nullptr || options.world->first(); }

  void open_folder() {
    if (!speaks()) return;
    folder.emplace(RunFolder::Args{.root = options.runs, .name = run_name(), .mode = options.mode});
  }

  const std::string& run_name() const { return options.name.empty() ? job.name : options.name; }
  std::filesystem::path run_path() const { return options.runs / run_name(); }

  // --- where it begins

  std::optional<Checkpoint> find_checkpoint() {
    return newest_checkpoint(folder ? &*folder : nullptr, options.world,
                             [this](const std::string& line) { progress->say(line); });
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
    if (options.progress)
      progress->say(fmt::format("resumed from {} ({} epochs, {} steps done)", checkpoint->file.string(), state.epoch,
                                state.step));
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
    if (options.progress) progress->say(fmt::format("takes over after {} epochs, {} steps", state.epoch, state.step));
  }

  void go_on_from_state() {
    stop.restore(state.counters);
    epoch_loss = counter("epoch.loss");
    epoch_correct = counter("epoch.correct");
    trained_seconds = counter("trained_seconds");
    evaluated_step = static_cast<std::int64_t>(counter("evaluated.step"));
    outcome.train_loss = counter("train_loss");
    if (evaluated_step == state.step) report(Score{counter("evaluated.loss"), counter("evaluated.accuracy")});
  }

  double counter(const char* key) const {
    const auto found = state.counters.find(key);
    return found == state.counters.end() ? 0.0 : found->second;
  }

  const TrainingState& state_now() {
    state.counters = stop.state();
    state.counters["epoch.loss"] = epoch_loss;
    state.counters["epoch.correct"] = epoch_correct;
    state.counters["trained_seconds"] = trained_seconds;
    state.counters["train_loss"] = outcome.train_loss;
    state.counters["evaluated.step"] = static_cast<double>(evaluated_step);
    if (outcome.test_loss) state.counters["evaluated.loss"] = *outcome.test_loss;
    if (outcome.test_accuracy) state.counters["evaluated.accuracy"] = *outcome.test_accuracy;
    return state;
  }

  void save() {
    checkpoints.save(*learner, state_now());
    if (options.live != nullptr && speaks()) options.live->writes_checkpoint(state.step);
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
    epoch_loss += loss;
    epoch_correct += correct;
    rate = context.learning_rate;
    const double seconds = stopwatch.seconds();
    trained_seconds += seconds;
    epoch_seconds += seconds;
    const std::int64_t images = learner->samples_of_step();
    epoch_images += images;
    run_seconds += seconds;
    run_images += images;
    std::vector<Metric> values = {
        {"learning_rate", rate}, {"images_per_s", static_cast<double>(images) / seconds}, {"time_s", trained_seconds}};
    const auto scale = learner->loss_scale();
    if (scale) {
      next_scale = scale->scale;
      values.insert(values.end(), {{"loss_scale", scale->scale}, {"skipped_updates", scale->skipped}});
    }
    std::ranges::move(learner->metrics_of_step(), std::back_inserter(values));
    log("train", loss, correct / static_cast<double>(train.batch), std::move(values));
    tell_view(loss, scale);
  }

  void log(std::string_view phase, double loss, double accuracy, std::vector<Metric> values = {}) {
    if (!speaks()) return;
    if (classifies) values.insert(values.begin(), {"accuracy", accuracy});
    values.insert(values.begin(), {"loss", loss});
    run_log->write({state.step, state.epoch + 1}, phase, values);
  }

  void log_nodes(const NodeFigures& nodes, std::int64_t epoch) {
    std::vector<Metric> values;
    if (nodes.model_distance) values.push_back({"model_distance", *nodes.model_distance});
    if (nodes.output_kl) values.push_back({"output_kl", *nodes.output_kl});
    if (job.train.stop.each_node) values.push_back({"finished_nodes", static_cast<double>(stop.finished_nodes())});
    if (!values.empty()) run_log->write({state.step, epoch}, "nodes", values);
  }

  void tell_view(double loss, const std::optional<Model::LossScale>& scale) {
    if (options.live == nullptr || !speaks()) return;
    const std::int64_t done = state.position_in_epoch / job.train.batch;
    LiveFigures figures{.epoch = state.epoch + 1, .epochs = job.train.epochs, .step = done, .steps = steps_per_epoch};
    figures.images = run_images;
    figures.images_left = (steps_per_epoch * job.train.epochs - state.step) * job.train.batch;
    figures.train_s = run_seconds;
    figures.loss = loss;
    if (classifies) figures.train_accuracy = epoch_correct / static_cast<double>(state.position_in_epoch);
    figures.learning_rate = rate;
    if (scale) {
      figures.loss_scale = scale->scale;
      figures.skipped_updates = scale->skipped;
    }
    figures.input_wait_fraction = learner->waited_for_input_ms() / 1000.0 / run_seconds;
    options.live->stepped(figures);
  }

  void show_progress() {
    if (!options.progress || options.live != nullptr) return;
    const std::int64_t done = state.position_in_epoch / job.train.batch;
    ProgressState shown;
    shown.epoch = state.epoch + 1;
    shown.epochs = job.train.epochs;
    shown.step = done;
    shown.steps = steps_per_epoch;
    if (run_seconds > 0) shown.images_per_s = static_cast<double>(run_images) / run_seconds;
    shown.images_left = (steps_per_epoch * job.train.epochs - state.step) * job.train.batch;
    if (done > 0) {
      shown.loss = epoch_loss / static_cast<double>(done);
      if (classifies) shown.accuracy = epoch_correct / static_cast<double>(state.position_in_epoch);
    }
    if (run_seconds > 0) shown.input_wait_fraction = learner->waited_for_input_ms() / 1000.0 / run_seconds;
    progress->update(shown);
  }

  // --- one epoch

  EpochSummary finish_epoch() {
    EpochSummary summary;
    summary.epoch = state.epoch + 1;
    summary.step = state.step;
    summary.train_loss = epoch_loss / static_cast<double>(steps_per_epoch);
    if (classifies) summary.train_accuracy = epoch_correct / static_cast<double>(steps_per_epoch * job.train.batch);
    summary.learning_rate = rate;
    if (epoch_seconds > 0) summary.images_per_s = static_cast<double>(epoch_images) / epoch_seconds;
    const bool last = state.epoch + 1 == job.train.epochs;
    if ((state.epoch + 1) % job.train.eval_every == 0 || last) {
      evaluate_now(last ? Evaluation::detailed : Evaluation::plain);
      summary.test_loss = outcome.test_loss;
      summary.test_accuracy = outcome.test_accuracy;
    }
    if (job.train.tensorboard.histograms) log_histograms();
    outcome.train_loss = summary.train_loss;
    state.epoch += 1;
    state.position_in_epoch = 0;
    epoch_loss = epoch_correct = epoch_seconds = 0;
    epoch_images = 0;
    outcome.epochs = state.epoch;
    return summary;
  }

  // Replicas that update on their own become one model where it is looked at. To look must not change what is trained:
  // theirs are shown where the evaluation has made them one already.
  void log_histograms() {
    if (learner->looking_changes_it() && evaluated_step != state.step) return;
    std::vector<NamedHistogram> histograms;
    const auto add = [&](const char* prefix, Model::Contents contents, double scale) {
      const Model::Snapshot snapshot = learner->snapshot(contents);
      for (const NamedTensor& tensor : snapshot.tensors())
        histograms.push_back(
            {fmt::format("{}/{}", prefix, tensor.name),
             make_histogram({reinterpret_cast<const float*>(tensor.data.data()), tensor.data.size() / sizeof(float)},
                            scale)});
    };
    add("weights", Model::Contents::model, 1);
    add("gradients", Model::Contents::gradients, 1 / gradient_scale);
    if (speaks()) run_log->write(state.step, histograms);
  }

  // Details are for the last evaluation of a run.
  enum class Evaluation { plain, detailed };

  void evaluate_now(Evaluation how) {
    const Score score = evaluate(how);
    log("test", score.loss, score.accuracy);
    evaluated_step = state.step;
    report(score);
    if (classifies) {
      double& best = state.best_metrics.try_emplace("test_accuracy", score.accuracy).first->second;
      best = std::max(best, score.accuracy);
    }
    if (options.live != nullptr) options.live->evaluated(score.loss, outcome.test_accuracy, best_accuracy());
  }

  std::optional<double> best_accuracy() const {
    const auto best = state.best_metrics.find("test_accuracy");
    return best == state.best_metrics.end() ? std::nullopt : std::optional(best->second);
  }

  void live_does(LiveBoard::Doing doing) const {
    if (options.live != nullptr) options.live->does(doing);
  }

  Score evaluate(Evaluation how) {
    live_does(LiveBoard::Doing::evaluating);
    const Score score = score_with(how);
    live_does(LiveBoard::Doing::training);
    return score;
  }

  Score score_with(Evaluation how) {
    if (how == Evaluation::plain || !classifies) return learner->evaluate(test_set, nullptr);
    EvaluationDetails details(job.model.classes);
    const Score score = learner->evaluate(test_set, &details);
    detailed_step = state.step;
    if (speaks()) run_log->write(state.step, details, *test_set);
    return score;
  }

  // A run that a stop rule ended learns only then which evaluation was its last, and repeats it. One that had nothing
  // left to train may have its details already.
  void evaluate_last() {
    const bool wanted = classifies && detailed_step != state.step && outcome.stopped_by != "interrupt";
    bool there = run_images == 0 && speaks() && std::filesystem::exists(folder->evaluation_json());
    if (options.world != nullptr) there = options.world->from_first(there);
    if (evaluated_step != state.step) {
      outcome.test_loss = outcome.test_accuracy = std::nullopt;
      if (outcome.stopped_by != "interrupt") evaluate_now(Evaluation::detailed);
    } else if (wanted && !there) {
      evaluate(Evaluation::detailed);
    }
  }

  void report(const Score& score) {
    outcome.test_loss = score.loss;
    if (classifies) outcome.test_accuracy = score.accuracy;
  }

  void say(const EpochSummary& summary) {
    if (!options.progress) return;
    progress->say(format_epoch_line({.epoch = summary.epoch,
                                     .epochs = job.train.epochs,
                                     .train_loss = summary.train_loss,
                                     .train_accuracy = summary.train_accuracy,
                                     .test_loss = summary.test_loss,
                                     .test_accuracy = summary.test_accuracy,
                                     .best_test_accuracy = best_accuracy(),
                                     .images_per_s = summary.images_per_s},
                                    colors_standard_error()));
  }

  enum class Wish { none, minutes, interrupt };

  // Why training ends before the next step, if it does. A signal may reach any process; process 0 has the clock.
  Wish wish_to_stop() const {
    Wish wish = Wish::none;
    if (speaks() && stop.out_of_time(trained_seconds / 60)) wish = Wish::minutes;
    if (options.interrupt != nullptr && options.interrupt->load()) wish = Wish::interrupt;
    if (options.world == nullptr) return wish;
    const std::vector<Wish> wishes = options.world->gather(wish);
    return *std::ranges::max_element(wishes);
  }

  // Trains until something says stop; the rule's name.
  std::string train(const std::function<void(const EpochSummary&)>& on_epoch) {
    Wish wish = learner->asked_to_end() ? Wish::interrupt : Wish::none;
    std::int64_t last_step = wish == Wish::none ? -1 : learner->steps_until_end(state.step);  // of a wish to stop
    while (state.epoch < job.train.epochs) {
      while (state.position_in_epoch < steps_per_epoch * job.train.batch) {
        if (last_step < 0) {
          wish = wish_to_stop();
          if (wish != Wish::none) last_step = learner->steps_until_end(state.step);
        }
        if (state.step == last_step) return wish == Wish::minutes ? "minutes" : "interrupt";
        train_step();
        show_progress();
        checkpoints.check();
        if (options.live != nullptr && !checkpoints.writing()) options.live->wrote_checkpoint();
        if (state.position_in_epoch < steps_per_epoch * job.train.batch && checkpoints.due(state)) {
          save();
          learner->passed(state_now());
        }
      }
      const EpochSummary summary = finish_epoch();
      say(summary);
      if (on_epoch && speaks()) on_epoch(summary);
      if (options.world != nullptr) trained_seconds = options.world->from_first(trained_seconds);
      const std::optional<NodeFigures> nodes = learner->nodes_of_epoch();
      const auto rule = stop.after_epoch({summary.train_loss, summary.test_accuracy, trained_seconds / 60, nodes});
      if (nodes) log_nodes(*nodes, summary.epoch);
      if (rule) return *rule;
      if (checkpoints.due(state)) save();
      learner->passed(state_now());
    }
    return "epochs";
  }

  TrainingOutcome run(const std::function<void(const EpochSummary&)>& on_epoch) {
    if (speaks()) outcome.folder = folder->path();
    outcome.epochs = state.epoch;
    outcome.stopped_by = train(on_epoch);
    if (options.progress)
      for (const std::string& line : learner->closing_lines()) progress->say(line);
    progress.reset();  // the bar's line ends
    live_does(LiveBoard::Doing::ending);
    if (state.position_in_epoch > 0)
      outcome.train_loss =
          epoch_loss * static_cast<double>(job.train.batch) / static_cast<double>(state.position_in_epoch);
    if (!checkpoints.has(state)) save();
    // What is reported is the score of the model that was saved, or none: Ctrl-C does not wait for one.
    evaluate_last();
    live_does(LiveBoard::Doing::ending);
    checkpoints.finish();
    outcome.checkpoints = checkpoints.times();
    outcome.steps = state.step;
    if (run_seconds > 0) outcome.images_per_s = static_cast<double>(run_images) / run_seconds;
    outcome.peak_bytes = learner->device_bytes() > 0 ? learner->device_bytes() : peak_process_bytes();
    return outcome;
  }

  Job job;
  TrainerOptions options;
  std::shared_ptr<const Dataset> train_set;
  std::shared_ptr<const Dataset> test_set;
  StopDecision stop;
  std::optional<RunFolder> folder;
  std::optional<Progress> progress{std::in_place, Progress::Args{}};
  std::unique_ptr<Learner> learner;
  std::optional<RunLog> run_log;  // of the process that speaks
  RunCheckpoints checkpoints;

  TrainingState state;
  std::int64_t steps_per_epoch = 0;
  bool classifies = true;            // no accuracy without classes
  std::int64_t evaluated_step = -1;  // where the outcome's test figures stand
  std::int64_t detailed_step = -1;   // where evaluation.json stands, as far as this process knows
  double epoch_loss = 0;             // summed over this epoch's steps
  double epoch_correct = 0;          // samples of this epoch
  double epoch_seconds = 0;          // of this epoch, in this process
  std::int64_t epoch_images = 0;
  double run_seconds = 0;  // of this process
  std::int64_t run_images = 0;
  double trained_seconds = 0;  // over all processes of the run
  double rate = 0;
  double next_scale = 1;      // of the loss, in fp16, at the next step
  double gradient_scale = 1;  // that the gradients of the last step carry
  TrainingOutcome outcome;
};

Trainer::Trainer(const Job& job, TrainerOptions options) {
  TRIFOLD_CHECK(!job.plan.servers || options.make_learner, "parameter servers need a learner of their own");
  parts_ = std::make_unique<Parts>(job, std::move(options));
}
Trainer::~Trainer() = default;

TrainingOutcome Trainer::run(const std::function<void(const EpochSummary&)>& on_epoch) {
  return parts_->run(on_epoch);
}

}  // namespace trifold
