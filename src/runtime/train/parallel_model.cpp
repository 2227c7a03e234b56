#include "runtime/train/parallel_model.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <spdlog/spdlog.h>
#include <unistd.h>

#include "core/error.h"
#include "kernels/gpu_plugin.h"
#include "parallel/rank_placement.h"
#include "runtime/compiler/verify.h"
#include "runtime/train/batch_inputs.h"
#include "runtime/train/class_weights.h"
#include "runtime/train/device_choice.h"
#include "runtime/train/model_options.h"
#include "runtime/train/snapshot_exchange.h"
#include "runtime/train/step_exchange.h"

namespace trifold {
namespace {

using StepClock = std::chrono::steady_clock;

// Of the ranks here, the others have the next ones.
int first_gpu_here(const Job& job, const World* world) {
  if (world == nullptr) {
    check_gpus(job.plan.device, mesh_of(job.plan).size());
    return 0;
  }
  const RankPlacement placement = place_ranks(mesh_of(job.plan), world->size(), world->starter());
  spdlog::info("{}", to_string(placement));
  return first_gpu_of_process(job.plan.device, {.place_here = world->rank_here(),
                                                .processes_here = world->processes_here(),
                                                .ranks_each = placement.ranks_each});
}

// Threads of all ranks together, as a plan divides them. Processes of one machine share its cores, and a launcher may
// have bound this one to some of them.
int threads_of_job(const Job& job, int threads_here, const World& world) {
  const auto cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  const int share = std::max(1, cores / world.processes_here());
  return (job.train.threads > 0 ? threads_here : std::min(threads_here, share)) * world.size();
}

}  // namespace

ParallelModel::ParallelModel(const Job& job, const World* world, Updates updates)
    : job_(job), world_(world), updates_elsewhere_(updates == Updates::elsewhere) {
  const int first_gpu = first_gpu_here(job, world);
  ModelOptions options = model_options(job, first_gpu);
  options.updates_elsewhere = updates_elsewhere_;
  if (world != nullptr) {
    options.threads = threads_of_job(job, options.threads, *world);
    options.overlap_reduction = true;  // a process that is ahead need not wait for the others at every step's end
  }
  std::vector<double> measured = measure_for_stages(job, options);
  if (world != nullptr && !measured.empty()) {
    const std::size_t layers = measured.size();
    measured = world->gather_all<double>(measured);
    measured.resize(layers);  // process 0's
  }
  plan_ = make_parallel_plan(job, options, measured);
  micro_batch_ = options.batch / plan_.pipeline.micro_batches / plan_.mesh.data;
  for (auto& groups : world != nullptr ? world->make_ranks(plan_.mesh) : make_local_ranks(plan_.mesh)) {
    const int gpu = first_gpu + static_cast<int>(ranks_.size());
    options.device = choose_device(job.plan.device, job.train.own_kernels, gpu).device;
    Rank rank;
    rank.groups = std::move(groups);
    rank.actions = assign_slots(plan_.pipeline, rank.groups->place().pipeline);
    for (const ModelOptions& chunk : plan_.rank_options(options, rank.groups.get(), rank.groups->rank()))
      rank.chunks.push_back(make_model(job, chunk));
    rank.accumulated.resize(rank.chunks.size());
    for (const auto& chunk : rank.chunks)
      if (const CrossEntropy* loss = cross_entropy_of(chunk->training().program().graph))
        rank.class_weights = loss->class_weights;
    averages_by_weight_ = averages_by_weight_ || !rank.class_weights.empty();
    ranks_.push_back(std::move(rank));
  }
  if (verifies_passes()) verify_ranks(programs_of_ranks());
  take_share();
  team_ = std::make_unique<RankTeam>(RankTeamOptions{.ranks = static_cast<int>(ranks_.size()),
                                                     .threads = plan_.threads,
                                                     .first_rank = ranks_.front().groups->rank(),
                                                     .on_failure = [this](const std::string& why) {
                                                       for (const Rank& rank : ranks_) rank.groups->abort(why);
                                                       if (exchange_) exchange_->abort(why);
                                                     }});
  if (plan_.mesh.size() > 1 && !device().host_memory()) connect_devices();
}

std::vector<RankPrograms> ParallelModel::programs_of_ranks() const {
  std::vector<RankPrograms> ranks;
  for (const Rank& rank : ranks_) {
    RankPrograms& programs = ranks.emplace_back(RankPrograms{.place = rank.groups->place(), .programs = {}});
    for (const auto& chunk : rank.chunks)
      for (const Executable* program : {&chunk->training(), &chunk->evaluation()})
        programs.programs.push_back(&program->program());
  }
  return ranks;
}

// Every rank on its thread: none returns before all have come.
void ParallelModel::connect_devices() {
  for (const Rank& rank : ranks_) {
    std::set<Route> routes;
    for (const auto& chunk : rank.chunks)
      for (const Executable* program : {&chunk->training(), &chunk->evaluation()}) {
        const std::vector<Route> found = routes_of(program->program().graph);
        routes.insert(found.begin(), found.end());
      }
    rank.groups->set_on_device(
        find_gpus().plugin->make_groups(*rank.groups, rank.chunks.front()->device(), {routes.begin(), routes.end()}));
  }
  for_each_rank([](Rank& rank) { rank.groups->on_device()->connect(); });
}

// Devices that are connected part together, each on its thread: first their work ends, then the recordings, of which
// the connections are a part.
ParallelModel::~ParallelModel() {
  if (ranks_.front().groups->on_device() == nullptr) return;
  try {
    for_each_rank([](Rank& rank) {
      rank.groups->on_device()->finish();
      rank.chunks.clear();
      rank.groups->on_device()->leave();
    });
  } catch (const std::exception& error) {
    spdlog::debug("the devices did not part in order: {}", error.what());  // a step has failed, and has said so
  }
}

// The samples of neighbouring replicas lie together where the batch is one micro-batch.
void ParallelModel::take_share() {
  reads_images_ = false;
  for (const Rank& rank : ranks_)
    for (const auto& chunk : rank.chunks)
      reads_images_ = reads_images_ || chunk->training().program().graph.images != kNoValue;
  if (world_ == nullptr || plan_.pipeline.micro_batches > 1) return;
  slice_ = {.begin = first_of(ranks_.front(), 0), .end = first_of(ranks_.back(), 0) + micro_batch_};
}

std::size_t ParallelModel::memory_bytes(int rank) const {
  std::size_t bytes = 0;
  for (const auto& chunk : ranks_[static_cast<std::size_t>(rank)].chunks) bytes += chunk->memory_bytes();
  return bytes;
}

std::size_t ParallelModel::memory_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) bytes += memory_bytes(static_cast<int>(rank));
  return bytes;
}

void ParallelModel::for_each_rank(const std::function<void(Rank&)>& work) {
  team_->run([&](int rank) { work(ranks_[static_cast<std::size_t>(rank)]); });
}

// --- a step

bool ParallelModel::takes_batch_early() const {
  return plan_.pipeline.micro_batches == 1 && plan_.mesh.pipeline == 1 && !device().host_memory();
}

// A micro-batch is a run of the global batch, of which every replica has its part.
std::int64_t ParallelModel::first_of(const Rank& rank, int micro_batch) const {
  return (std::int64_t{micro_batch} * plan_.mesh.data + rank.groups->place().data) * micro_batch_ - slice_.begin;
}

// Replicas that go their own ways average over their own samples, and what is an update over its own. The sum is taken
// in the order of the batch, so that all ranks and all plans divide by the very same number.
double ParallelModel::mean_class_weight(const Rank& rank, const Batch& batch, int micro_batch) const {
  if (rank.class_weights.empty()) return 1;
  const std::span<const std::int32_t> labels = batch.global_labels.empty() ? batch.labels : batch.global_labels;
  MeanClassWeight mean(rank.class_weights);
  const auto add = [&](std::int64_t first, std::int64_t count) {
    mean.add(labels.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
  };
  const int micro_batches = plan_.pipeline.micro_batches;
  const bool apart = plan_.pipeline.schedule->updates_every_micro_batch && micro_batches > 1;
  if (!plan_.sync.local() && !apart) {
    add(0, static_cast<std::int64_t>(labels.size()));
  } else {
    const int end = apart ? micro_batch + 1 : micro_batches;
    for (int micro = apart ? micro_batch : 0; micro < end; ++micro) {
      if (plan_.sync.local())
        add(first_of(rank, micro), micro_batch_);
      else
        add(std::int64_t{micro} * plan_.mesh.data * micro_batch_, plan_.mesh.data * micro_batch_);
    }
  }
  return mean.value();
}

void ParallelModel::start_step(const Batch* batch, const StepContext& context) {
  const auto begin = StepClock::now();
  if (exchange_) exchange_->begin();
  for_each_rank([&](Rank& rank) {
    if (timing_) rank.was_idle(begin, StepClock::now());
    if (!device().host_memory()) rank.begins(Activity::device);
    const auto number = static_cast<int>(&rank - ranks_.data());
    if (exchange_) exchange_->begin(number);
    step(rank, batch, context);
    if (exchange_) exchange_->end(number);
    rank.end = StepClock::now();
    if (device().host_memory()) rank.begins(Activity::idle);
  });
  if (exchange_) exchange_->end();
  replicas_differ_ = plan_.mesh.data > 1 && plan_.sync.local();
  if (timing_) {
    const auto end = StepClock::now();
    for (Rank& rank : ranks_) rank.was_idle(rank.end, end);
  }
  if (replicas_differ_ && context.updates % plan_.sync.period == 0) average_replicas(context);
}

// Whoever looks at the model sees one.
void ParallelModel::average_replicas(const StepContext& context) const {
  if (!std::exchange(replicas_differ_, false)) return;
  team_->run([&](int rank) {
    for (const auto& chunk : ranks_[static_cast<std::size_t>(rank)].chunks) chunk->training().average(context);
    ranks_[static_cast<std::size_t>(rank)].begins(Activity::idle);
  });
}

void ParallelModel::time_steps(bool on, std::span<SpanLog> logs) {
  TRIFOLD_CHECK(logs.empty() || logs.size() == ranks_.size(), "{} logs of {} ranks", logs.size(), ranks_.size());
  timing_ = on;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i].log = logs.empty() ? nullptr : &logs[i];
    for (const auto& chunk : ranks_[i].chunks) chunk->training().time_nodes(on, ranks_[i].log);
  }
}

void ParallelModel::announce_work(std::span<RankActivity> activities) {
  TRIFOLD_CHECK(activities.size() == ranks_.size(), "{} watched of {} ranks", activities.size(), ranks_.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i].activity = &activities[i];
    for (const auto& chunk : ranks_[i].chunks) {
      chunk->training().announce_nodes(&activities[i]);
      chunk->evaluation().announce_nodes(&activities[i]);
    }
  }
}

void ParallelModel::fill(Rank& rank, Executable& program, const Batch& batch, std::int64_t first, int slot) {
  const auto begin = StepClock::now();
  if (device().host_memory()) rank.begins(Activity::input);
  fill_inputs(program, batch, first, micro_batch_, slot);
  if (!timing_) return;
  const auto end = StepClock::now();
  rank.seconds.input += std::chrono::duration<double>(end - begin).count();
  if (rank.log != nullptr) rank.log->add(Span::Kind::input, -1, begin, end);
}

void ParallelModel::submit(const Batch& batch) {
  for_each_rank([&](Rank& rank) {
    rank.submitted_sample = batch.first_sample + first_of(rank, 0);
    rank.submitted_class_weight = mean_class_weight(rank, batch, 0);
    fill_inputs(rank.chunks.front()->training(), batch, first_of(rank, 0), micro_batch_);
  });
}

void ParallelModel::step(Rank& rank, const Batch* batch, StepContext context) {
  if (plan_.mesh.pipeline == 1)
    whole_step(rank, batch, context);
  else
    pipelined_step(rank, *batch, context);
}

void ParallelModel::whole_step(Rank& rank, const Batch* batch, StepContext context) {
  Executable& program = rank.chunks.front()->training();
  const int micro_batches = plan_.pipeline.micro_batches;
  context.mean_class_weight = batch != nullptr ? mean_class_weight(rank, *batch, 0) : rank.submitted_class_weight;
  for (int micro = 0; micro < micro_batches; ++micro) {
    rank.works_on(0, micro);
    if (batch != nullptr) {
      context.first_sample = batch->first_sample + first_of(rank, micro);
      fill(rank, program, *batch, first_of(rank, micro), 0);
    } else {
      context.first_sample = rank.submitted_sample;
    }
    if (micro_batches == 1) return program.step(context);
    program.run(context);
    program.accumulate(micro == 0, context);
    program.take_report();
  }
  program.update(context);
}

void ParallelModel::pipelined_step(Rank& rank, const Batch& batch, StepContext context) {
  rank.accumulated.assign(rank.chunks.size(), false);
  for (std::size_t i = 0; i < rank.actions.actions.size(); ++i) {
    const Action& action = rank.actions.actions[i];
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const int slot = rank.actions.slot[i];
    Executable& program = rank.chunks[chunk]->training();
    const std::int64_t sample = first_of(rank, action.micro_batch);
    context.first_sample = batch.first_sample + sample;
    context.mean_class_weight = mean_class_weight(rank, batch, action.micro_batch);
    rank.works_on(chunk, action.micro_batch);
    if (action.work == Work::forward) fill(rank, program, batch, sample, slot);
    program.run(action.work, slot, context);
    if (action.work == Work::forward) program.take_report();
    const bool made_gradients = action.work == Work::backward || action.work == Work::weight_gradient;
    if (made_gradients && plan_.pipeline.schedule->updates_every_micro_batch) {
      StepContext update = context;
      update.updates = (context.updates - 1) * plan_.pipeline.micro_batches + action.micro_batch + 1;
      program.update(update);
    } else if (made_gradients && plan_.pipeline.micro_batches > 1) {
      program.accumulate(!rank.accumulated[chunk], context);
      rank.accumulated[chunk] = true;
    }
  }
  if (plan_.pipeline.schedule->updates_every_micro_batch) return;
  for (std::size_t chunk = 0; chunk < rank.chunks.size(); ++chunk) {
    rank.works_on(chunk, plan_.pipeline.micro_batches - 1);
    rank.chunks[chunk]->training().update(context);
  }
}

Executable::Report ParallelModel::finish_step() {
  const bool reported_by_program = plan_.mesh.pipeline == 1 && plan_.pipeline.micro_batches == 1;
  std::vector<Executable::Report> reports;
  for (const Rank& rank : ranks_) {
    Executable::Report& report = reports.emplace_back();
    if (reported_by_program) report = rank.chunks.front()->training().report();
    for (const auto& chunk : rank.chunks) {
      const Executable::Report part = chunk->training().collect_reports();
      report.loss += part.loss;
      report.correct += part.correct;
    }
    if (!device().host_memory()) rank.begins(Activity::idle);
  }
  reports = of_all_ranks(std::move(reports));
  Executable::Report sum;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (place_of(plan_.mesh, static_cast<int>(rank)).tensor > 0) continue;  // the first of them speaks for all
    sum.loss += reports[rank].loss;
    sum.correct += reports[rank].correct;
  }
  // Each replica's loss is the mean of its own samples.
  if (plan_.sync.local()) sum.loss /= plan_.mesh.data;
  if (plan_.pipeline.schedule->updates_every_micro_batch) sum.loss /= plan_.pipeline.micro_batches;
  return sum;
}

// --- evaluation

// The loss's rank has what the network says of its samples. Of tensor ranks, who all have it, the first one speaks.
void ParallelModel::add_details(const Rank& rank, const Batch& batch, EvaluationDetails& details) const {
  if (rank.groups->place().tensor > 0) return;
  const std::int64_t first = first_of(rank, 0);
  const std::int64_t samples = std::clamp<std::int64_t>(batch.count - first, 0, micro_batch_);
  for (const auto& chunk : rank.chunks) {
    const Graph& graph = chunk->evaluation().program().graph;
    if (graph.report == kNoValue) continue;
    const std::vector<float> output = chunk->evaluation().read(graph.output);
    const std::size_t classes = output.size() / static_cast<std::size_t>(micro_batch_);
    for (std::int64_t i = 0; i < samples; ++i)
      details.add(batch.first_sample + first + i, batch.labels[static_cast<std::size_t>(first + i)],
                  std::span(output).subspan(static_cast<std::size_t>(i) * classes, classes));
  }
}

void ParallelModel::join_details(std::span<const EvaluationDetails> of_ranks_here, EvaluationDetails& details) const {
  for (const EvaluationDetails& of_rank : of_ranks_here) details.join(of_rank);
  if (world_ == nullptr) return;
  std::vector<SampleResult> worst = details.worst();
  worst.resize(EvaluationDetails::kMostWorst);  // equally many of each process
  const std::size_t counts = details.confusion().size();
  const std::vector<std::int64_t> confusions = world_->gather_all<std::int64_t>(details.confusion());
  details = EvaluationDetails(details.classes());
  details.join(std::vector<std::int64_t>(counts), world_->gather_all<SampleResult>(worst));
  for (std::size_t first = 0; first < confusions.size(); first += counts)
    details.join(std::span(confusions).subspan(first, counts), {});
}

Score ParallelModel::evaluate(Loader& loader, EvaluationDetails* details) {
  struct Part {
    double loss = 0;
    double correct = 0;
    double weight = 0;  // of the samples that the loss is a sum over
    std::int64_t samples = 0;
  };
  average_replicas({});
  const auto steps = static_cast<std::size_t>(loader.steps_per_epoch());
  std::vector<Part> parts(ranks_.size() * steps);  // a rank's lie together
  std::vector<EvaluationDetails> details_of_ranks;
  if (details != nullptr) details_of_ranks.assign(ranks_.size(), EvaluationDetails(details->classes()));
  for (std::size_t step = 0; step < steps; ++step) {
    const Batch& batch = loader.next();
    for_each_rank([&](Rank& rank) {
      Part& part = parts[static_cast<std::size_t>(&rank - ranks_.data()) * steps + step];
      part.samples = std::clamp<std::int64_t>(batch.count - first_of(rank, 0), 0, micro_batch_);
      for (std::size_t number = 0; number < rank.chunks.size(); ++number) {
        Executable& program = rank.chunks[number]->evaluation();
        rank.begins(device().host_memory() ? Activity::input : Activity::device);
        if (rank.activity != nullptr) rank.activity->enter(rank.chunks.size() + number, 0);
        fill_inputs(program, batch, first_of(rank, 0), micro_batch_);
        program.run({});
        const Executable::Report report = program.report();
        part.loss += report.loss * static_cast<double>(micro_batch_);  // the report is a mean over these
        part.correct += report.correct;
        if (program.program().graph.report == kNoValue) continue;
        const auto labels = std::span(batch.labels).subspan(static_cast<std::size_t>(first_of(rank, 0)));
        part.weight =
            rank.class_weights.empty()
                ? static_cast<double>(part.samples)
                : sum_of_class_weights(rank.class_weights, labels.first(static_cast<std::size_t>(part.samples)));
      }
      if (details != nullptr)
        add_details(rank, batch, details_of_ranks[static_cast<std::size_t>(&rank - ranks_.data())]);
      for (const auto& chunk : rank.chunks) chunk->evaluation().settle();
      rank.begins(Activity::idle);
    });
    loader.release();
  }
  if (details != nullptr) join_details(details_of_ranks, *details);
  parts = of_all_ranks(std::move(parts));
  Part sum;
  for (std::size_t step = 0; step < steps; ++step) {
    for (int rank = 0; rank < plan_.mesh.size(); ++rank) {
      const MeshPlace place = place_of(plan_.mesh, rank);
      if (place.tensor > 0) continue;
      const Part& part = parts[static_cast<std::size_t>(rank) * steps + step];
      sum.loss += part.loss;
      sum.correct += part.correct;
      sum.weight += part.weight;
      if (place.pipeline == 0) sum.samples += part.samples;
    }
  }
  Score score;
  score.samples = sum.samples;
  if (sum.samples > 0) {
    if (sum.weight > 0) score.loss = sum.loss / sum.weight;
    score.accuracy = sum.correct / static_cast<double>(sum.samples);
  }
  return score;
}

std::vector<float> ParallelModel::outputs(const Batch& batch) {
  TRIFOLD_CHECK(world_ == nullptr, "other processes have outputs too");
  std::vector<std::vector<float>> of_ranks(ranks_.size());
  for_each_rank([&](Rank& rank) {
    for (const auto& chunk : rank.chunks) {
      fill_inputs(chunk->evaluation(), batch, first_of(rank, 0), micro_batch_);
      chunk->evaluation().run({});
      const Graph& graph = chunk->evaluation().program().graph;
      if (graph.report != kNoValue && rank.groups->place().tensor == 0)
        of_ranks[static_cast<std::size_t>(&rank - ranks_.data())] = chunk->evaluation().read(graph.output);
    }
    for (const auto& chunk : rank.chunks) chunk->evaluation().settle();
  });
  std::vector<float> outputs;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const std::size_t classes = of_ranks[i].size() / static_cast<std::size_t>(micro_batch_);
    const std::int64_t samples = std::clamp<std::int64_t>(batch.count - first_of(ranks_[i], 0), 0, micro_batch_);
    const auto end = of_ranks[i].begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(samples) * classes);
    outputs.insert(outputs.end(), of_ranks[i].begin(), end);
  }
  return outputs;
}

// --- weights

void ParallelModel::initialize(std::uint64_t seed) {
  for_each_rank([&](Rank& rank) {
    for (const auto& chunk : rank.chunks) chunk->initialize(seed);
  });
}

Model::Snapshot ParallelModel::snapshot(Model::Contents contents) const {
  if (contents != Model::Contents::gradients) average_replicas({});
  std::vector<Model::Snapshot> of_ranks(ranks_.size());
  team_->run([&](int i) {
    const Rank& rank = ranks_[static_cast<std::size_t>(i)];
    const bool is_copy = rank.groups->place().data > 0;
    if (is_copy && plan_.zero == 0) return;
    for (const auto& chunk : rank.chunks) {
      Model::Snapshot part = chunk->snapshot(contents);
      if (!is_copy) of_ranks[static_cast<std::size_t>(i)].join(std::move(part));
    }
  });
  // A rank's part travels alone: what joins several parts, but not all, has no place in a tensor.
  const auto ranks_here = static_cast<int>(ranks_.size());
  if (world_ != nullptr && !world_->first()) {
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (ranks_[i].groups->place().data == 0) send_snapshot(of_ranks[i], world_->everyone(), 0);
    return {};
  }
  Model::Snapshot whole;
  for (Model::Snapshot& part : of_ranks) whole.join(std::move(part));
  for (int rank = ranks_here; rank < plan_.mesh.size(); ++rank)
    if (place_of(plan_.mesh, rank).data == 0) whole.join(receive_snapshot(world_->everyone(), rank / ranks_here));
  return whole;
}

void ParallelModel::load(const SafetensorsFile& file, Model::Contents contents) {
  for_each_rank([&](Rank& rank) {
    for (const auto& chunk : rank.chunks) chunk->load(file, contents);
  });
}

}  // namespace trifold
