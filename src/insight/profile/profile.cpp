#include "insight/profile/profile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <tuple>

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.h"
#include "core/parallel.h"
#include "insight/profile/kernel_alone.h"
#include "insight/profile/profile_exchange.h"
#include "insight/trace/trace_recorder.h"
#include "insight/work/traffic.h"
#include "runtime/train/device_choice.h"
#include "runtime/train/job_data.h"
#include "runtime/train/parallel_model.h"

namespace trifold {
namespace {

using Clock = Span::Clock;

constexpr int kAloneRounds = 5;         // spread over the steps, so that both see the same machine
constexpr std::size_t kSamples = 512;   // of a node's times are kept at most
constexpr double kLatencyLaunches = 4;  // a kernel that takes no longer than so many empty ones is bound by starting it

double ms_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

// A node's work by the roofs of the threads that do it.
class RoofModel {
 public:
  RoofModel(const MachineRoofs& roofs, int threads)
      : roofs_(roofs), share_(std::min(1.0, static_cast<double>(threads) / roofs.threads)) {}

  struct Limit {
    double ms = 0;
    const char* bound = "";
  };
  Limit limit(double flops, double bytes, bool bf16) const {
    const double peak = share_ * (bf16 && roofs_.bf16_gflops > 0 ? roofs_.bf16_gflops : roofs_.fp32_gflops);
    const double stream = share_ * (bytes <= share_ * roofs_.cache_bytes ? roofs_.cache_gbps : roofs_.memory_gbps);
    const double compute_ms = flops / peak / 1e6;
    const double memory_ms = bytes / stream / 1e6;
    return compute_ms >= memory_ms ? Limit{compute_ms, "compute"} : Limit{memory_ms, "memory"};
  }
  double latency_ms() const { return kLatencyLaunches * roofs_.launch_us / 1e3; }

 private:
  const MachineRoofs& roofs_;
  double share_;
};

// What one rank's spans come to.
class RankProfile {
 public:
  RankProfile(const ParallelModel& model, int rank) : rank_(rank) {
    for (const auto& chunk : model.chunks(rank)) {
      programs_.push_back(&chunk->training().program());
      nodes_.emplace_back(programs_.back()->graph.nodes.size());
    }
  }

  void add(const std::vector<Span>& spans) {
    count_ += static_cast<std::int64_t>(spans.size());
    for (const Span& span : spans) {
      const double ms = ms_between(span.begin, span.end);
      noted_ms_ += ms;
      if (span.kind == Span::Kind::idle) {
        idle_ms_ += ms;
        continue;
      }
      parts_[part_of(span)].add(ms);
      if (span.kind == Span::Kind::input)
        input_.add(ms);
      else if (span.kind == Span::Kind::settle)
        settle_.add(ms);
      else
        nodes_[static_cast<std::size_t>(span.chunk)][static_cast<std::size_t>(span.node)].add(ms);
    }
  }

  // `loading_ms`: all ranks waited for the loader; `others_ms`: this process for others, after its ranks' work.
  std::vector<ProfileRow> rows(double wall_ms, double loading_ms, double others_ms, int steps, const RoofModel& roofs,
                               const KernelsAlone& alone) const {
    std::vector<ProfileRow> rows;
    for (std::size_t chunk = 0; chunk < nodes_.size(); ++chunk)
      for (std::size_t node = 0; node < nodes_[chunk].size(); ++node)
        if (nodes_[chunk][node].calls > 0) {
          rows.push_back(row_of(*programs_[chunk], node, nodes_[chunk][node], roofs));
          rows.back().alone_ms = 1e3 * alone.seconds(*programs_[chunk], node);
        }
    const auto add = [&](const char* name, const char* phase, const Times& times, const char* bound = "") {
      if (times.calls == 0) return;
      ProfileRow row{.name = name, .phase = phase, .rank = rank_};
      times.to(row);
      row.bound = bound;
      rows.push_back(row);
    };
    const auto whole = [&](double ms) {
      return Times{.calls = steps, .total = std::max(0.0, ms), .min = ms / steps, .max = ms / steps};
    };
    add("copy batch", "input", input_);
    add("wait for data", "input", whole(loading_ms), "waiting");
    add("wait for the receiver", "communication", settle_, "waiting");
    add("idle", "idle", whole(idle_ms_ + others_ms), "waiting");
    add("between kernels", "host", whole(wall_ms - noted_ms_ - loading_ms - others_ms));
    return rows;
  }

  // The same time again, by what it was spent on.
  std::vector<ProfileRow> micro_batch_rows() const {
    std::vector<ProfileRow> rows;
    for (const auto& [part, times] : parts_) {
      const auto& [micro_batch, phase] = part;
      ProfileRow& row = rows.emplace_back(ProfileRow{
          .name = micro_batch < 0 ? "the whole batch" : fmt::format("micro-batch {}", micro_batch), .phase = phase});
      row.rank = rank_;
      times.to(row);
    }
    return rows;
  }

  std::int64_t count() const { return count_; }

 private:
  struct Times {
    std::int64_t calls = 0;
    double total = 0, min = 0, max = 0;  // ms
    std::vector<float> samples = {};     // every `stride`th call's, so that a long run does not grow
    std::int64_t stride = 1;

    void add(double ms) {
      min = calls == 0 ? ms : std::min(min, ms);
      max = std::max(max, ms);
      total += ms;
      if (calls % stride == 0) samples.push_back(static_cast<float>(ms));
      ++calls;
      if (samples.size() < kSamples) return;
      for (std::size_t i = 0; i < kSamples / 2; ++i) samples[i] = samples[2 * i];
      samples.resize(kSamples / 2);
      stride *= 2;
    }
    double median() const {
      std::vector<float> sorted = samples;
      std::ranges::sort(sorted);
      return sorted.empty() ? min : sorted[sorted.size() / 2];
    }
    void to(ProfileRow& row) const {
      row.median_ms = median();
      row.calls = calls;
      row.total_ms = total;
      row.min_ms = min;
      row.max_ms = max;
    }
  };

  std::pair<int, std::string> part_of(const Span& span) const {
    if (span.kind == Span::Kind::input) return {span.micro_batch, "input"};
    if (span.kind == Span::Kind::settle) return {span.micro_batch, "communication"};
    const Node& node =
        programs_[static_cast<std::size_t>(span.chunk)]->graph.nodes[static_cast<std::size_t>(span.node)];
    return {node.phase == Phase::update ? -1 : span.micro_batch, phase_name(node)};
  }

  ProfileRow row_of(const Program& program, std::size_t index, const Times& times, const RoofModel& roofs) const {
    const Node& node = program.graph.nodes[index];
    ProfileRow row{.name = std::string(node.op->name()),
                   .kind = node.op->kind(),
                   .implementation = program.kernels[index]->implementation(),
                   .layer = node.layer < 0 ? "" : program.graph.layers[static_cast<std::size_t>(node.layer)].id,
                   .phase = phase_name(node),
                   .rank = rank_};
    times.to(row);
    const auto calls = static_cast<double>(times.calls);
    if (exchange_of(node) != nullptr) {
      const auto size = [&](const std::vector<ValueId>& ids) {
        return ids.empty() ? 0.0 : static_cast<double>(program.descs[static_cast<std::size_t>(ids[0])].bytes());
      };
      row.bytes = calls * std::max(size(node.in), size(node.out));
      row.bound = "waiting";
      return row;
    }
    const double flops = program.flops(node);
    const double bytes = program.bytes_moved(node);
    const bool bf16 = !node.in.empty() && program.descs[static_cast<std::size_t>(node.in[0])].dtype == DType::bf16;
    const RoofModel::Limit limit = roofs.limit(flops, bytes, bf16);
    row.flops = calls * flops;
    row.bytes = calls * bytes;
    row.roof_ms = calls * limit.ms;
    const bool far = limit.ms < 0.5 * row.mean_ms();
    row.bound = far && row.mean_ms() < roofs.latency_ms() ? "latency" : limit.bound;
    return row;
  }

  int rank_;
  std::vector<const Program*> programs_;   // by chunk
  std::vector<std::vector<Times>> nodes_;  // by chunk and node
  Times input_, settle_;
  std::map<std::pair<int, std::string>, Times> parts_;  // by micro-batch (-1: what is done once a step) and phase
  double noted_ms_ = 0;                                 // in all spans
  double idle_ms_ = 0;
  std::int64_t count_ = 0;
};

// Two looks at the clock and a note: what a span costs the step that it is of.
double span_cost_us() {
  constexpr int kSpans = 20000;
  SpanLog log;
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    log.clear();
    const auto begin = Clock::now();
    for (int i = 0; i < kSpans; ++i) {
      const auto now = Clock::now();
      log.add(Span::Kind::node, i, now, Clock::now());
    }
    best = std::min(best, 1e3 * ms_between(begin, Clock::now()) / kSpans);
  }
  return best;
}

}  // namespace

const char* phase_name(const Node& node) {
  if (exchange_of(node) != nullptr) return "communication";
  switch (node.phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward_input:
      return "input gradient";
    case Phase::backward_weight:
      return "weight gradient";
    case Phase::update:
      return "update";
  }
  return "?";
}

double Profile::attributed() const {
  double host = 0;
  for (const ProfileRow& row : rows)
    if (row.phase == "host") host += row.total_ms;
  return 1 - host / all_ms();
}

Profile profile(const Job& given, const ProfileOptions& options) {
  if (chooses_gpus(given.plan.device)) return profile_gpus(given, options);
  Job job = given;
  const auto cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  const World* world = options.world;
  Profile found{.job = job.name, .batch = job.train.batch, .steps = options.steps};
  if (world != nullptr && !world->first()) world->everyone().barrier();  // process 0 measures the roofs undisturbed
  found.roofs = roofs_of_machine(cores, roofs_file());
  if (world != nullptr && world->first()) world->everyone().barrier();
  const auto data = open_split(job, Split::train);
  job.model.class_weights = loss_class_weights(job, *data);
  ParallelModel model(job, world);
  model.initialize(job.train.seed);
  found.ranks = model.plan().mesh.size();
  found.threads = model.plan().threads;
  found.stages = model.plan().mesh.pipeline;
  found.span_us = span_cost_us();

  const std::unique_ptr<Loader> loader = make_training_loader(job, data, 0, 0, model.batch_share());
  const std::int64_t steps_per_epoch = loader->steps_per_epoch();
  std::int64_t done = 0;
  const auto step = [&] {
    const auto begin = Clock::now();
    const Batch& batch = loader->next();
    const auto loaded = Clock::now();
    model.start_step(&batch, {.seed = job.train.seed,
                              .first_sample = 0,
                              .learning_rate = learning_rate(job.train.schedule, done, steps_per_epoch,
                                                             steps_per_epoch * job.train.epochs),
                              .updates = done + 1});
    const auto worked = Clock::now();
    loader->release();
    const double loss = model.finish_step().loss;
    if (!std::isfinite(loss)) fail_runtime("the loss became {} at step {}; lower train.optimizer.lr", loss, done + 1);
    ++done;
    return std::tuple(begin, loaded, worked, Clock::now());
  };
  for (int i = 0; i < options.warmup; ++i) step();

  std::vector<SpanLog> logs(static_cast<std::size_t>(model.ranks_here()));
  std::vector<RankProfile> ranks;
  for (int rank = 0; rank < model.ranks_here(); ++rank) ranks.emplace_back(model, rank);
  std::unique_ptr<TraceRecorder> trace;
  if (!options.trace.empty()) trace = std::make_unique<TraceRecorder>(options.trace, model, world);
  model.time_steps(true, logs);
  double loading_ms = 0;
  KernelsAlone alone(found.threads);
  const int steps_between = std::max(1, options.steps / kAloneRounds);
  double others_ms = 0;  // waiting for other processes after the work
  for (int i = 0; i < options.steps; ++i) {
    const auto [begin, loaded, worked, end] = step();
    found.wall_ms += ms_between(begin, end);
    loading_ms += ms_between(begin, loaded);
    if (world != nullptr) others_ms += ms_between(worked, end);
    if (trace)
      trace->add({.number = i,
                  .begin = begin,
                  .loaded = loaded,
                  .worked = worked,
                  .end = end,
                  .loss_scale = model.loss_scale().value_or(Model::LossScale{.scale = 0}).scale},
                 logs);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].add(logs[rank].spans());
      if (i + 1 == options.steps)
        join_timeline(found.memory, memory_timeline(model, static_cast<int>(rank), logs[rank].spans()));
      logs[rank].clear();
    }
    if (options.alone && i % steps_between == 0)
      for (int rank = 0; rank < model.ranks_here(); ++rank)
        for (const auto& chunk : model.chunks(rank)) alone.run(chunk->training());
  }
  model.time_steps(false);
  if (trace) found.clock_us = trace->finish();

  const RoofModel roofs(found.roofs, found.threads);
  for (int rank = 0; rank < model.ranks_here(); ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    for (ProfileRow& row : ranks[index].rows(found.wall_ms, loading_ms, others_ms, options.steps, roofs, alone)) {
      row.rank += model.first_rank();
      found.rows.push_back(std::move(row));
    }
    for (ProfileRow& row : ranks[index].micro_batch_rows()) {
      row.rank += model.first_rank();
      found.micro_batches.push_back(std::move(row));
    }
    found.spans += ranks[index].count();
  }
  if (world != nullptr) gather_rows(*world, found);
  std::ranges::stable_sort(found.rows, std::greater(), &ProfileRow::total_ms);
  found.advice = advice_on(found);
  return found;
}

}  // namespace trifold
