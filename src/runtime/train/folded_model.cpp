#include "runtime/train/folded_model.h"

#include <algorithm>
#include <array>

#include "runtime/core/error.h"
#include "runtime/train/model_options.h"

namespace trifold {

FoldedModel::FoldedModel(const Job& job) : job_(job) {
  const ModelOptions options = model_options(job);
  plan_ = plan_fold(job, options);
  micro_batch_ = options.batch / plan_.pipeline.micro_batches / plan_.mesh.data;
  std::vector<std::unique_ptr<RankGroups>> groups = make_local_ranks(plan_.mesh);
  for (int index = 0; index < plan_.mesh.size(); ++index) {
    Rank rank;
    rank.groups = std::move(groups[static_cast<std::size_t>(index)]);
    rank.actions = assign_slots(plan_.pipeline, rank.groups->place().pipeline);
    for (const ModelOptions& chunk : plan_.rank_options(options, rank.groups.get(), index)) {
      rank.chunks.push_back(make_model(job, chunk));
      has_targets_ = has_targets_ || rank.chunks.back()->training().program().graph.targets != kNoValue;
    }
    ranks_.push_back(std::move(rank));
  }
  team_ = std::make_unique<RankTeam>(RankTeamOptions{
      .ranks = plan_.mesh.size(), .threads = plan_.threads, .on_failure = [this](const std::string& why) {
        for (const Rank& rank : ranks_) rank.groups->abort(why);
      }});
}

std::size_t FoldedModel::memory_bytes(int rank) const {
  std::size_t bytes = 0;
  for (const auto& chunk : ranks_[static_cast<std::size_t>(rank)].chunks) bytes += chunk->memory_bytes();
  return bytes;
}

std::size_t FoldedModel::memory_bytes() const {
  std::size_t bytes = 0;
  for (int rank = 0; rank < plan_.mesh.size(); ++rank) bytes += memory_bytes(rank);
  return bytes;
}

void FoldedModel::for_each_rank(const std::function<void(Rank&)>& work) {
  team_->run([&](int rank) { work(ranks_[static_cast<std::size_t>(rank)]); });
}

// --- a step

bool FoldedModel::takes_batch_early() const {
  return plan_.pipeline.micro_batches == 1 && plan_.mesh.pipeline == 1 && !device().host_memory();
}

// A micro-batch is a run of the global batch, of which every replica has its part.
std::int64_t FoldedModel::first_of(const Rank& rank, int micro_batch) const {
  return (std::int64_t{micro_batch} * plan_.mesh.data + rank.groups->place().data) * micro_batch_;
}

void FoldedModel::start_step(const Batch* batch, const StepContext& context) {
  for_each_rank([&](Rank& rank) { step(rank, batch, context); });
}

void FoldedModel::submit(const Batch& batch) {
  for_each_rank([&](Rank& rank) {
    rank.submitted_sample = batch.first_sample + first_of(rank, 0);
    fill_inputs(rank.chunks.front()->training(), batch, first_of(rank, 0), micro_batch_);
  });
}

void FoldedModel::step(Rank& rank, const Batch* batch, StepContext context) {
  if (plan_.mesh.pipeline == 1)
    whole_step(rank, batch, context);
  else
    pipelined_step(rank, *batch, context);
}

void FoldedModel::whole_step(Rank& rank, const Batch* batch, StepContext context) {
  Executable& program = rank.chunks.front()->training();
  const int micro_batches = plan_.pipeline.micro_batches;
  rank.report = {};
  for (int micro = 0; micro < micro_batches; ++micro) {
    if (batch != nullptr) {
      context.first_sample = batch->first_sample + first_of(rank, micro);
      fill_inputs(program, *batch, first_of(rank, micro), micro_batch_);
    } else {
      context.first_sample = rank.submitted_sample;
    }
    if (micro_batches == 1) return program.step(context);
    program.run(context);
    program.accumulate(micro == 0, context);
    const Executable::Report report = program.report();
    rank.report.loss += report.loss;
    rank.report.correct += report.correct;
  }
  program.update(context);
}

void FoldedModel::pipelined_step(Rank& rank, const Batch& batch, StepContext context) {
  rank.report = {};
  std::vector<bool> first(rank.chunks.size(), true);
  for (std::size_t i = 0; i < rank.actions.actions.size(); ++i) {
    const Action& action = rank.actions.actions[i];
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const int slot = rank.actions.slot[i];
    Executable& program = rank.chunks[chunk]->training();
    const std::int64_t sample = first_of(rank, action.micro_batch);
    context.first_sample = batch.first_sample + sample;
    if (action.work == Work::forward) fill_inputs(program, batch, sample, micro_batch_, slot);
    program.run(action.work, slot, context);
    if (action.work == Work::forward) {
      const Executable::Report report = program.report();
      rank.report.loss += report.loss;
      rank.report.correct += report.correct;
    }
    const bool made_gradients = action.work == Work::backward || action.work == Work::weight_gradient;
    if (made_gradients && plan_.pipeline.micro_batches > 1) {
      program.accumulate(first[chunk], context);
      first[chunk] = false;
    }
  }
  for (const auto& chunk : rank.chunks) chunk->training().update(context);
}

Executable::Report FoldedModel::finish_step() {
  const bool reported_by_program = plan_.mesh.pipeline == 1 && plan_.pipeline.micro_batches == 1;
  Executable::Report sum;
  for (Rank& rank : ranks_) {
    if (rank.groups->place().tensor > 0) continue;  // the first of them speaks for all
    const Executable::Report report = reported_by_program ? rank.chunks.front()->training().report() : rank.report;
    sum.loss += report.loss;
    sum.correct += report.correct;
  }
  return sum;
}

// --- evaluation

Score FoldedModel::evaluate(Loader& loader) {
  Score score;
  double loss_sum = 0;
  double correct = 0;
  for (std::int64_t step = 0; step < loader.steps_per_epoch(); ++step) {
    const Batch& batch = loader.next();
    score.samples += batch.count;
    for_each_rank([&](Rank& rank) {
      rank.report = {};
      for (const auto& chunk : rank.chunks) {
        Executable& program = chunk->evaluation();
        fill_inputs(program, batch, first_of(rank, 0), micro_batch_);
        program.run({});
        const Executable::Report report = program.report();
        rank.report.loss += report.loss * static_cast<double>(micro_batch_);  // the report is a mean over these
        rank.report.correct += report.correct;
      }
    });
    loader.release();
    for (const Rank& rank : ranks_) {
      if (rank.groups->place().tensor > 0) continue;
      loss_sum += rank.report.loss;
      correct += rank.report.correct;
    }
  }
  if (score.samples > 0) {
    score.loss = loss_sum / static_cast<double>(score.samples);
    score.accuracy = correct / static_cast<double>(score.samples);
  }
  return score;
}

// --- weights

void FoldedModel::initialize(std::uint64_t seed) {
  for_each_rank([&](Rank& rank) {
    for (const auto& chunk : rank.chunks) chunk->initialize(seed);
  });
}

Model::Snapshot FoldedModel::snapshot(Model::Contents contents) const {
  Model::Snapshot whole;
  for (const Rank& rank : ranks_) {
    if (rank.groups->place().data > 0) continue;  // replicas are equal
    for (const auto& chunk : rank.chunks) whole.join(chunk->snapshot(contents));
  }
  return whole;
}

void FoldedModel::load(const SafetensorsFile& file, Model::Contents contents) {
  for_each_rank([&](Rank& rank) {
    for (const auto& chunk : rank.chunks) chunk->load(file, contents);
  });
}

}  // namespace trifold
