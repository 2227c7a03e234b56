// The profile of a job whose ranks are GPUs: steps are given node by node, not replayed, while a recorder notes what
// the GPUs do for each.
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "insight/profile/gpu_rows.h"
#include "kernels/gpu_plugin.h"
#include "runtime/train/job_data.h"
#include "runtime/train/parallel_model.h"

namespace trifold {
namespace {

using Clock = Span::Clock;

constexpr const char* kSimulatedAs = "a100";  // unless --gpu names another

void check_named(const std::string& key) {
  if (key.empty() || find_gpu_spec(key) != nullptr) return;
  std::string known;
  for (const GpuSpec& gpu : known_gpus()) known += fmt::format("{}{}", known.empty() ? "" : ", ", gpu.key);
  fail_input("--gpu {}: no such GPU is known; there are {}", key, known);
}

// The named one; else a simulated one stands for kSimulatedAs, and a real one for itself, if it is known.
const GpuSpec* choose_spec(const std::string& given, bool simulated) {
  if (!given.empty()) return find_gpu_spec(given);
  if (simulated) return find_gpu_spec(kSimulatedAs);
  return spec_of_device(find_gpus().plugin->gpus().front().name);
}

GpuProfile::Spec facts_of(const GpuSpec* gpu) {
  if (gpu == nullptr) return {};
  return {.name = gpu->name,
          .fp32_gflops = 1e3 * gpu->fp32_tflops,
          .half_gflops = 1e3 * gpu->half_tflops,
          .memory_gbps = gpu->memory_gbps};
}

// A job's training steps, one after the other.
class Steps {
 public:
  Steps(const Job& job, std::shared_ptr<const Dataset> data, ParallelModel& model)
      : job_(job), model_(model), loader_(make_training_loader(job, std::move(data), 0, 0, model.batch_share())) {}

  void run() {
    const std::int64_t an_epoch = loader_->steps_per_epoch();
    const Batch& batch = loader_->next();
    model_.start_step(
        &batch, {.seed = job_.train.seed,
                 .first_sample = 0,
                 .learning_rate = learning_rate(job_.train.schedule, done_, an_epoch, an_epoch * job_.train.epochs),
                 .updates = done_ + 1});
    loader_->release();
    const double loss = model_.finish_step().loss;
    ++done_;
    if (!std::isfinite(loss)) fail_runtime("the loss became {} at step {}; lower train.optimizer.lr", loss, done_);
  }

 private:
  const Job& job_;
  ParallelModel& model_;
  std::unique_ptr<Loader> loader_;
  std::int64_t done_ = 0;
};

}  // namespace

Profile profile_gpus(const Job& given, const ProfileOptions& options) {
  check_named(options.gpu);
  Job job = given;
  const auto data = open_split(job, Split::train);
  job.model.class_weights = loss_class_weights(job, *data);
  ParallelModel model(job);
  model.initialize(job.train.seed);
  Profile found{.job = job.name,
                .batch = job.train.batch,
                .ranks = model.plan().mesh.size(),
                .threads = model.plan().threads,
                .stages = model.plan().mesh.pipeline,
                .steps = options.steps};

  std::vector<Device*> devices;
  for (int rank = 0; rank < found.ranks; ++rank) devices.push_back(&model.chunks(rank).front()->device());
  const std::unique_ptr<ActivityRecorder> recorder = find_gpus().plugin->make_recorder(devices);
  const GpuSpec* gpu = choose_spec(options.gpu, recorder->simulated());
  const GpuInfo info = find_gpus().plugin->gpus().front();
  found.gpu = GpuProfile{.device = info.name,
                         .multiprocessors = info.multiprocessors,
                         .simulated = recorder->simulated(),
                         .method = recorder->method(),
                         .why_not_better = recorder->why_not(),
                         .spec = facts_of(gpu)};

  std::vector<SpanLog> logs;
  for (int rank = 0; rank < found.ranks; ++rank) logs.emplace_back(rank, recorder.get());
  Steps steps(job, data, model);
  GpuRows rows(model, !recorder->simulated(), gpu);
  model.time_steps(true, logs);  // the steps before them, too, are given node by node
  const auto clear = [&] {
    for (SpanLog& log : logs) log.clear();
  };
  for (int i = 0; i < options.warmup; ++i) {
    steps.run();
    clear();
  }
  recorder->take();
  for (int i = 0; i < options.steps; ++i) {
    const auto begin = Clock::now();
    steps.run();
    found.wall_ms += std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    rows.add_step(logs, recorder->take());
    clear();
  }
  model.time_steps(false);

  found.rows = rows.rows(found.wall_ms);
  if (!recorder->simulated()) return found;
  found.wall_ms = 0;  // of the simulator, it would say nothing: the ranks' mean estimate
  for (const ProfileRow& row : found.rows) found.wall_ms += row.total_ms / found.ranks;
  return found;
}

}  // namespace trifold
