// Times training steps of a job on made-up data, in this process, without loader, metrics or checkpoints. For
// tools/bench and tools/checks/compare_torch.py it can take turns with a peer (--serve) and leave what it computed with
// (--dump).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/resource.h>

#include "core/error.h"
#include "core/philox.h"
#include "primitives_bound.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/config/job.h"
#include "runtime/train/model_options.h"

namespace trifold {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class StepBench {
 public:
  explicit StepBench(const Job& job) : job_(job) {
    job_.data.augment_on = AugmentOn::host;  // no loader: the images are drawn as the network reads them
    model_ = make_model(job_);
    model_->initialize(job.train.seed);
    Executable& program = model_->training();
    const Graph& graph = program.program().graph;
    const auto elements = static_cast<std::size_t>(graph[graph.images].shape.elements());
    RandomSequence random(job.train.seed, Purpose::synthetic, 77);
    for (std::size_t i = 0; i < elements; ++i) program.images()[i] = random.normal();
    for (std::int64_t i = 0; i < job.train.micro_batch(); ++i)
      program.labels()[i] = static_cast<std::int32_t>(
          random.below(static_cast<std::uint32_t>(std::max<std::int64_t>(job.model.classes, 1))));
  }

  Model& model() { return *model_; }

  // Seconds of one whole update; its loss is kept.
  double step() {
    const auto begin = Clock::now();
    Executable& program = model_->training();
    StepContext context{.seed = job_.train.seed,
                        .first_sample = steps_ * job_.train.batch,
                        .learning_rate = job_.train.schedule.base_rate,
                        .updates = steps_ + 1};
    loss_ = 0;
    for (std::int64_t part = 0; part < job_.train.accumulate; ++part) {
      program.run(context);
      loss_ += program.loss();
      if (job_.train.accumulate > 1) program.accumulate(part == 0, context);
    }
    program.update(context);
    ++steps_;
    return seconds_since(begin);
  }

  double loss() const { return loss_; }

  // Parameters, images and labels as they are now, for another program to start from.
  void dump(const std::string& file) {
    const Model::Snapshot snapshot = model_->snapshot(Model::Contents::model);
    std::vector<NamedTensor> tensors = snapshot.tensors();
    Executable& program = model_->training();
    const Graph& graph = program.program().graph;
    const auto images = static_cast<std::size_t>(graph[graph.images].shape.elements());
    const auto labels = static_cast<std::size_t>(graph[graph.labels].shape.elements());
    tensors.push_back(
        {"images", graph[graph.images].shape, DType::f32, std::as_bytes(std::span(program.images(), images))});
    tensors.push_back(
        {"labels", graph[graph.labels].shape, DType::i32, std::as_bytes(std::span(program.labels(), labels))});
    write_safetensors(file, tensors, {});
  }

  // Milliseconds a step by kind of work, slowest first.
  void print_profile(int steps) {
    Executable& program = model_->training();
    program.time_nodes(true);
    for (int i = 0; i < steps; ++i) step();
    const Program& compiled = program.program();
    struct Row {
      double seconds = 0;
      double flops = 0;
      int calls = 0;
    };
    std::map<std::string, Row> rows;
    for (std::size_t i = 0; i < compiled.graph.nodes.size(); ++i) {
      if (!compiled.kernels[i]) continue;
      const Node& node = compiled.graph.nodes[i];
      std::string name = fmt::format("{} {}", node.op->name(), compiled.kernels[i]->implementation());
      Row& row = rows[name];
      row.seconds += program.node_seconds()[i] / steps;
      row.flops += compiled.flops(node);
      row.calls += 1;
    }
    std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
    std::ranges::sort(sorted, [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
    for (const auto& [name, row] : sorted)
      fmt::print(stderr, "{:9.3f} ms  {:4} calls  {:7.1f} GFLOP/s  {}\n", row.seconds * 1e3, row.calls,
                 row.flops / row.seconds / 1e9, name);
    program.time_nodes(false);
  }

  void print_nodes() {
    const Executable& program = model_->training();
    const Program& compiled = program.program();
    for (std::size_t i = 0; i < compiled.graph.nodes.size(); ++i) {
      const Node& node = compiled.graph.nodes[i];
      if (!compiled.kernels[i]) continue;
      fmt::print(stderr, "{:9.3f} ms {:7.1f} GFLOP/s {:7.1f} GB/s  {} {} {}\n", program.node_seconds()[i] * 1e3,
                 compiled.flops(node) / program.node_seconds()[i] / 1e9,
                 compiled.bytes_moved(node) / program.node_seconds()[i] / 1e9,
                 node.layer < 0 ? "-" : compiled.graph.layers[static_cast<std::size_t>(node.layer)].id,
                 to_string(*node.op), compiled.kernels[i]->implementation());
    }
  }

 private:
  Job job_;
  std::unique_ptr<Model> model_;
  std::int64_t steps_ = 0;
  double loss_ = 0;
};

int run(int argc, char** argv) {
  CLI::App app{"times training steps of a job"};
  std::string file;
  std::vector<std::string> set;
  int steps = 10;
  bool serve = false;
  bool bound = false;
  bool profile = false;
  bool nodes = false;
  std::string dump;
  app.add_option("job", file)->required();
  app.add_option("--set", set);
  app.add_option("--steps", steps);
  app.add_flag("--serve", serve, "reads numbers of steps from standard input, answers with seconds a step");
  app.add_flag("--bound", bound, "times the network's oneDNN convolutions and inner products alone");
  app.add_flag("--profile", profile, "shows where the time goes");
  app.add_flag("--nodes", nodes, "shows it for every node");
  app.add_option("--dump", dump, "writes the first parameters and the batch, then prints the loss of every step");
  CLI11_PARSE(app, argc, argv);

  std::vector<Override> overrides;
  for (const std::string& text : set) overrides.push_back(parse_set(text));
  const Job job = load_job(file, overrides);
  if (bound) {
    fmt::print("{:.6f}\n", primitives_bound_seconds(job));
    return 0;
  }
  StepBench bench(job);
  if (!dump.empty()) {
    bench.dump(dump);
    for (int i = 0; i < steps; ++i) {
      bench.step();
      fmt::print("{:.9g}\n", bench.loss());
    }
    return 0;
  }
  bench.step();
  bench.step();
  if (serve) {
    fmt::print("ready\n");
    std::fflush(stdout);
    int count = 0;
    while (std::cin >> count && count > 0) {
      for (int i = 0; i < count; ++i) fmt::print("{:.6f}{}", bench.step(), i + 1 < count ? " " : "\n");
      std::fflush(stdout);
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    fmt::print("{}\n", usage.ru_maxrss * 1024L);
    return 0;
  }
  if (profile || nodes) {
    bench.print_profile(nodes ? 1 : steps);
    if (nodes) bench.print_nodes();
  }
  double best = 1e30;
  double total = 0;
  for (int i = 0; i < steps; ++i) {
    const double seconds = bench.step();
    best = std::min(best, seconds);
    total += seconds;
  }
  fmt::print("{} batch {}: best {:.1f} images/s ({:.1f} ms), mean {:.1f}, loss {:.4f}, planned {:.0f} MB\n", job.name,
             job.train.batch, static_cast<double>(job.train.batch) / best, best * 1e3,
             static_cast<double>(job.train.batch) * steps / total, bench.loss(),
             static_cast<double>(bench.model().memory_bytes()) / 1e6);
  return 0;
}

}  // namespace
}  // namespace trifold

int main(int argc, char** argv) {
  try {
    return trifold::run(argc, argv);
  } catch (const trifold::Error& error) {
    fmt::print(stderr, "step_bench: {}\n", error.what());
    return error.exit_code();
  }
}
