// Trains a job for a few steps and writes, as one safetensors file, all that another program needs to repeat each step
// by itself: state before and after it, gradients, batch; then the evaluation of the last state. tools/checks/
// networks_torch compares these with PyTorch. Works for every plan whose ranks are threads of one process.
//
//   state.K/NAME     parameters, running statistics and optimiser state after K updates; state.0 is the initial one
//   gradient.K/NAME  what update K saw, K from 1: summed over replicas and micro-batches, times the loss scale,
//                    not clipped
//   images.K, labels.K, targets.K     the batch of update K, augmented and normalised
//   images.test, labels.test, targets.test, outputs.test     the test set, and what the loss reads of it
//   metadata         job (resolved), and numbers separated by spaces: loss, correct, learning_rate, first_sample and
//                    loss_scale by step; class_weights; skipped_updates; evaluation (loss, accuracy)
#include <algorithm>
#include <cstdio>
#include <deque>
#include <iterator>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/config/job.h"
#include "runtime/train/job_data.h"
#include "runtime/train/parallel_model.h"

namespace trifold {
namespace {

std::string numbers(const std::vector<double>& values) {
  return fmt::format("{:.17g}", fmt::join(values, " "));
}

class StepDump {
 public:
  explicit StepDump(const Job& job)
      : job_(with_class_weights(job)),
        on_host_(job_),
        train_set_(open_split(job_, Split::train)),
        test_set_(open_split(job_, Split::test)),
        model_(job_) {
    on_host_.data.augment_on = AugmentOn::host;
    model_.initialize(job_.train.seed);
    metadata_["job"] = to_json_text(job);
    metadata_["class_weights"] = numbers({job_.model.class_weights.begin(), job_.model.class_weights.end()});
    keep_snapshot("state.0", Model::Contents::model_and_optimizer);
  }

  void train(std::int64_t steps) {
    const std::unique_ptr<Loader> loader = make_training_loader(job_, train_set_, 0, 0, model_.batch_share());
    const std::unique_ptr<Loader> shown = make_training_loader(on_host_, train_set_, 0, 0);
    const std::int64_t steps_per_epoch = loader->steps_per_epoch();
    const std::int64_t total_steps = steps_per_epoch * job_.train.epochs;
    std::vector<double> losses, correct, rates, first_samples, loss_scales;
    for (std::int64_t step = 0; step < std::min(steps, total_steps); ++step) {
      const StepContext context{.seed = job_.train.seed,
                                .first_sample = 0,
                                .learning_rate = learning_rate(job_.train.schedule, step, steps_per_epoch, total_steps),
                                .updates = step + 1};
      const Batch& batch = loader->next();
      first_samples.push_back(static_cast<double>(batch.first_sample));
      loss_scales.push_back(loss_scale().scale);
      model_.start_step(&batch, context);
      const Executable::Report report = model_.finish_step();
      loader->release();
      losses.push_back(report.loss);
      correct.push_back(report.correct);
      rates.push_back(context.learning_rate);
      keep_batch(std::to_string(step + 1), shown->next());
      shown->release();
      keep_snapshot(fmt::format("gradient.{}", step + 1), Model::Contents::gradients);
      keep_snapshot(fmt::format("state.{}", step + 1), Model::Contents::model_and_optimizer);
    }
    metadata_["loss"] = numbers(losses);
    metadata_["correct"] = numbers(correct);
    metadata_["learning_rate"] = numbers(rates);
    metadata_["first_sample"] = numbers(first_samples);
    metadata_["loss_scale"] = numbers(loss_scales);
    metadata_["skipped_updates"] = numbers({loss_scale().skipped});
  }

  void evaluate() {
    const std::unique_ptr<Loader> loader = make_evaluation_loader(job_, test_set_, model_.batch_share());
    const Score score = model_.evaluate(*loader);
    metadata_["evaluation"] = numbers({score.loss, score.accuracy});
    const std::unique_ptr<Loader> again = make_evaluation_loader(job_, test_set_, model_.batch_share());
    const std::unique_ptr<Loader> shown = make_evaluation_loader(on_host_, test_set_);
    Batch all;
    std::vector<float> outputs;
    for (std::int64_t step = 0; step < shown->steps_per_epoch(); ++step) {
      std::ranges::copy(model_.outputs(again->next()), std::back_inserter(outputs));
      again->release();
      append(shown->next(), all);
      shown->release();
    }
    keep_batch("test", all);
    keep_floats("outputs.test", outputs, all.count);
  }

  void write(const std::string& file) const { write_safetensors(file, tensors_, metadata_); }

 private:
  static Job with_class_weights(Job job) {
    job.model.class_weights = loss_class_weights(job, *open_split(job, Split::train));
    return job;
  }

  Model::LossScale loss_scale() const { return model_.loss_scale().value_or(Model::LossScale()); }

  void keep_snapshot(const std::string& prefix, Model::Contents contents) {
    Model::Snapshot& snapshot = snapshots_.emplace_back(model_.snapshot(contents));
    snapshot.own();
    for (NamedTensor tensor : snapshot.tensors()) {
      tensor.name = prefix + "/" + tensor.name;
      tensors_.push_back(tensor);
    }
  }

  void keep_batch(const std::string& suffix, const Batch& batch) {
    keep_floats("images." + suffix, batch.images, batch.count);
    if (!batch.targets.empty()) keep_floats("targets." + suffix, batch.targets, batch.count);
    const std::vector<std::int32_t>& labels = labels_.emplace_back(batch.labels);
    tensors_.push_back({"labels." + suffix, {batch.count}, DType::i32, std::as_bytes(std::span(labels))});
  }

  // [count, elements of one]
  void keep_floats(const std::string& name, const std::vector<float>& values, std::int64_t count) {
    const std::vector<float>& kept = floats_.emplace_back(values);
    const std::int64_t width = static_cast<std::int64_t>(kept.size()) / count;
    tensors_.push_back({name, {count, width}, DType::f32, std::as_bytes(std::span(kept))});
  }

  // Without the zeros that fill up the last batch.
  static void append(const Batch& part, Batch& all) {
    const auto add = [&](const auto& from, auto& to) {
      const std::size_t width = from.size() / part.labels.size();
      to.insert(to.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(width * part.count));
    };
    add(part.images, all.images);
    add(part.targets, all.targets);
    add(part.labels, all.labels);
    all.count += part.count;
  }

  Job job_;
  Job on_host_;  // its loaders give the images that the network reads, wherever the job itself prepares them
  std::shared_ptr<const Dataset> train_set_;
  std::shared_ptr<const Dataset> test_set_;
  ParallelModel model_;
  SafetensorsMetadata metadata_;
  std::vector<NamedTensor> tensors_;  // views of what follows
  std::deque<Model::Snapshot> snapshots_;
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<std::int32_t>> labels_;
};

int run(int argc, char** argv) {
  CLI::App app{"trains a job for a few steps and writes the state, gradients and batch of each"};
  std::string file;
  std::string out;
  std::int64_t steps = 2;
  app.add_option("job", file)->required();
  app.add_option("--steps", steps, "updates, default 2; at most those of the job");
  app.add_option("--out", out, "safetensors file")->required();
  CLI11_PARSE(app, argc, argv);
  StepDump dump(load_job(file));
  dump.train(steps);
  dump.evaluate();
  dump.write(out);
  return 0;
}

}  // namespace
}  // namespace trifold

int main(int argc, char** argv) {
  try {
    return trifold::run(argc, argv);
  } catch (const trifold::Error& error) {
    fmt::print(stderr, "step_dump: {}\n", error.what());
    return error.exit_code();
  }
}
