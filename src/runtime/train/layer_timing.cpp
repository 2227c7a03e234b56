#include "runtime/train/layer_timing.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"

namespace trifold {
namespace {

constexpr int kWarmSteps = 2;
constexpr int kTimedSteps = 5;

}  // namespace

std::vector<double> measure_layers(const Job& job, const ModelOptions& job_options, std::int64_t micro_batch,
                                   int threads) {
  if (!job_options.device->host_memory())
    fail_input("{}: plan.stages: layers are measured on the CPU only: use \"auto\", or plan.cut_after",
               job.file.string());
  ModelOptions options = job_options;
  options.batch = micro_batch;
  options.accumulate = 1;
  options.bn_group = 0;
  options.threads = threads;
  const int threads_before = thread_count();
  set_thread_count(threads);
  Model model = make_model(job.model, options);
  model.initialize(static_cast<std::uint64_t>(job.train.seed));
  Executable& program = model.training();
  // Whatever lies in the inputs will do: no kernel's time depends on it.
  std::vector<double> best;
  for (int step = 0; step < kWarmSteps + kTimedSteps; ++step) {
    program.time_nodes(step >= kWarmSteps);
    const std::vector<double> before = program.node_seconds();
    program.run({});
    if (step < kWarmSteps) continue;
    std::vector<double> seconds(program.program().graph.layers.size(), 0.0);
    const std::vector<Node>& nodes = program.program().graph.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].layer >= 0)
        seconds[static_cast<std::size_t>(nodes[i].layer)] += program.node_seconds()[i] - before[i];
    if (best.empty()) best = seconds;
    std::ranges::transform(best, seconds, best.begin(), [](double a, double b) { return std::min(a, b); });
  }
  set_thread_count(threads_before);
  return best;
}

}  // namespace trifold
