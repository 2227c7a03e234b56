#include "runtime/train/model_options.h"

#include <algorithm>
#include <array>
#include <string>

#include <spdlog/spdlog.h>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/cpu/bf16.h"
#include "runtime/train/device_choice.h"
#include "runtime/train/job_data.h"

namespace trifold {
namespace {

std::string megabytes(std::size_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

// A CPU may store what it cannot compute in.
void say_what_is_computed_in_float(const Job& job, const ModelOptions& options) {
  if (!options.device->host_memory()) return;
  if (uses_precision(job.model, options, DType::f16))
    spdlog::info("fp16: numbers are stored in 16 bits and computed in float, as everywhere on a CPU");
  if (uses_precision(job.model, options, DType::bf16) && !cpu::why_no_bf16().empty())
    spdlog::info("bf16: {}; numbers are stored in 16 bits and computed in float", cpu::why_no_bf16());
}

// A GPU adds up gradients while it works. The host's cores have only so much time for both: there one sum at the end
// costs least, unless the job names a size of buckets.
bool overlap_reduction(const Job& job, const Device& device) {
  return !device.host_memory() || job.plan.bucket_bytes > 0;
}

}  // namespace

ModelOptions model_options(const Job& job, int gpu) {
  const TrainConfig& train = job.train;
  ModelOptions options;
  const DeviceChoice choice = choose_device(job.plan.device, train.own_kernels, gpu);
  options.backend = choice.backend;
  options.device = choice.device;
  options.graphs = train.graphs;
  options.overlap_reduction = overlap_reduction(job, *options.device);
  options.batch = train.batch;
  options.accumulate = train.accumulate;
  options.bn_group = train.bn_group;
  if (train.threads > 0) set_thread_count(train.threads);
  options.threads = thread_count();
  options.strict_math = train.math == Math::strict;
  options.recompute = train.recompute;
  options.precision = train.precision;
  options.loss_scaling = train.loss_scaling;
  options.optimizer = train.optimizer;
  options.decay_all = train.decay_bias;
  if (program_prepares_images(job))
    options.prepare = preparation_of(job.data.source.input, job.data.normalize, job.data.augment);
  say_what_is_computed_in_float(job, options);
  return options;
}

std::unique_ptr<Model> make_model(const Job& job) {
  return make_model(job, model_options(job));
}

std::unique_ptr<Model> make_model(const Job& job, const ModelOptions& options) {
  Program training = compile_training(job.model, options);
  Program evaluation = compile_evaluation(job.model, options, training);
  const std::array<const Program*, 2> programs = {&training, &evaluation};
  check_memory(job, options, programs);
  return std::make_unique<Model>(options, std::move(training), std::move(evaluation));
}

std::size_t planned_bytes(std::span<const Program* const> programs) {
  std::size_t total = 0;
  for (int region = 0; region < kRegions; ++region) {
    std::size_t bytes = 0;
    for (const Program* program : programs) bytes = std::max(bytes, program->memory.region_bytes[region]);
    total += bytes;
  }
  return total;
}

std::size_t memory_limit(const Job& job, const Device& device) {
  return job.train.memory_limit_bytes > 0 ? static_cast<std::size_t>(job.train.memory_limit_bytes)
                                          : device.memory_bytes();
}

void check_memory(const Job& job, const ModelOptions& options, std::span<const Program* const> programs) {
  const Device& device = *options.device;
  const std::size_t needed = planned_bytes(programs);
  const std::size_t limit = memory_limit(job, device);
  if (needed <= limit) return;
  const std::string whose = job.train.memory_limit_bytes > 0 ? "train.memory_limit allows"
                            : device.host_memory()           ? "this machine has"
                                                             : fmt::format("{} has", device.name());

  const MemoryPlan& memory = programs[0]->memory;
  struct Consumer {
    std::string name;
    std::size_t bytes;
  };
  std::vector<Consumer> consumers;
  for (const Region region :
       {Region::parameters, Region::gradients, Region::accumulated, Region::optimizer, Region::inputs})
    consumers.push_back({name_of(region), memory.bytes(region)});
  for (std::size_t i = 0; i < std::min<std::size_t>(memory.blocks.size(), 5); ++i)
    consumers.push_back({fmt::format("'{}'", memory.blocks[i].name), memory.blocks[i].bytes});
  std::ranges::stable_sort(consumers, [](const Consumer& a, const Consumer& b) { return a.bytes > b.bytes; });
  std::string largest;
  for (std::size_t i = 0; i < std::min<std::size_t>(consumers.size(), 5); ++i)
    largest += fmt::format("{}{} {}", i == 0 ? "" : ", ", consumers[i].name, megabytes(consumers[i].bytes));
  const std::string who =
      options.mesh.size() == 1
          ? "the job"
          : fmt::format("under {} the rank of replica {}, stage {}, tensor part {}", to_string(options.mesh),
                        options.place.data, options.place.pipeline, options.place.tensor);
  fail_input(
      "{}: {} needs {} of memory ({} of it for activations) and {} {}; the largest: {}. Make train.batch smaller or "
      "train.accumulate larger, or divide it among more ranks: plan.pp, plan.tp, or plan.dp with plan.zero",
      job.file.string(), who, megabytes(needed), megabytes(memory.bytes(Region::arena) + memory.bytes(Region::kept)),
      whose, megabytes(limit), largest);
}

}  // namespace trifold
