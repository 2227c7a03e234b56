#include "support/folding.h"

#include <cstring>

#include "core/philox.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold::test {
namespace {

Batch drawn_batch(const Job& job, std::int64_t first_sample) {
  Batch batch;
  const std::int64_t elements = job.model.input.elements();
  batch.first_sample = first_sample;
  batch.count = static_cast<int>(job.train.batch);
  for (std::int64_t n = 0; n < job.train.batch; ++n) {
    RandomSequence random(7, Purpose::synthetic, 0, static_cast<std::uint64_t>(first_sample + n));
    for (std::int64_t i = 0; i < elements; ++i) batch.images.push_back(random.uniform(-1, 1));
    batch.labels.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(job.model.classes))));
  }
  return batch;
}

std::map<std::string, std::vector<float>> parameters_of(const ParallelModel& model) {
  std::map<std::string, std::vector<float>> parameters;
  const Model::Snapshot snapshot = model.snapshot(Model::Contents::model_and_optimizer);
  for (const NamedTensor& tensor : snapshot.tensors()) {
    std::vector<float>& values = parameters[tensor.name];
    values.resize(tensor.data.size() / sizeof(float));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  }
  return parameters;
}

}  // namespace

DataSource synthetic_source(const NetworkSpec& network, std::int64_t train_samples) {
  DataSource source{.type = "synthetic",
                    .input = {.channels = static_cast<int>(network.input[0]),
                              .height = static_cast<int>(network.input[1]),
                              .width = static_cast<int>(network.input[2])},
                    .classes = static_cast<int>(network.classes)};
  source.values.set("train_samples", train_samples);
  complete(source);
  return source;
}

Job fold_job(const NetworkSpec& network, const PlanConfig& plan, const FoldOptions& options) {
  Job job;
  job.name = "fold";
  job.file = "fold.json";
  job.model = network;
  job.plan = plan;
  job.plan.device = options.device;
  job.train.graphs = options.graphs;
  job.data.augment_on = AugmentOn::host;  // batches are drawn as floats
  job.train.batch = options.batch;
  job.train.accumulate = options.accumulate;
  job.train.bn_group = options.bn_group;
  job.train.precision = options.precision;
  job.train.optimizer = options.optimizer;
  if (options.loss_scale > 0) job.train.loss_scaling = {.initial = options.loss_scale, .largest = options.loss_scale};
  return job;
}

double step_fold(ParallelModel& model, const Job& job, int step, double learning_rate) {
  const Batch batch = drawn_batch(job, step * job.train.batch);
  model.start_step(&batch, {.seed = 9, .first_sample = 0, .learning_rate = learning_rate, .updates = step + 1});
  return model.finish_step().loss;
}

std::vector<double> train_fold(ParallelModel& model, const Job& job, int steps, double learning_rate) {
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) losses.push_back(step_fold(model, job, step, learning_rate));
  return losses;
}

FoldRun run_fold(const Job& job, int steps, double learning_rate) {
  ParallelModel model(job);
  model.initialize(3);
  FoldRun run;
  run.losses = train_fold(model, job, steps, learning_rate);
  run.parameters = parameters_of(model);
  return run;
}

FoldRun run_fold_in_turns(const NetworkSpec& network, const PlanConfig& first, const PlanConfig& then,
                          const FoldOptions& options) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path file = directory / "halfway.safetensors";
  FoldRun run;
  const int half = options.steps / 2;
  {
    const Job job = fold_job(network, first, options);
    ParallelModel model(job);
    model.initialize(3);
    for (int step = 0; step < half; ++step) run.losses.push_back(step_fold(model, job, step, options.learning_rate));
    write_safetensors(file, model.snapshot(Model::Contents::model_and_optimizer).tensors(), {});
  }
  const Job job = fold_job(network, then, options);
  ParallelModel model(job);
  model.load(SafetensorsFile(file), Model::Contents::model_and_optimizer);
  for (int step = half; step < options.steps; ++step)
    run.losses.push_back(step_fold(model, job, step, options.learning_rate));
  run.parameters = parameters_of(model);
  return run;
}

FoldRun run_fold(const NetworkSpec& network, const PlanConfig& plan, const FoldOptions& options) {
  return run_fold(fold_job(network, plan, options), options.steps, options.learning_rate);
}

}  // namespace trifold::test
