#include "insight/trace/trace_recorder.h"

#include <algorithm>

#include "core/error.h"

namespace trifold {
namespace {

TraceStep::Time moved(const AlignedClock& clock, TraceStep::Time time) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  return TraceStep::Time(std::chrono::nanoseconds(clock.by_first(ns)));
}

void move_times(const AlignedClock& clock, NotedStep& noted) {
  for (TraceStep::Time* time : {&noted.step.begin, &noted.step.loaded, &noted.step.worked, &noted.step.end})
    *time = moved(clock, *time);
  for (std::vector<Span>& spans : noted.ranks)
    for (Span& span : spans) {
      span.begin = moved(clock, span.begin);
      span.end = moved(clock, span.end);
    }
}

}  // namespace

TraceRecorder::TraceRecorder(const std::filesystem::path& file, const ParallelModel& model, const World* world)
    : world_(world) {
  const TraceStep::Time zero = Span::Clock::now();
  std::vector<TraceRank> ranks = trace_ranks_of(model);
  if (world == nullptr) {
    writer_ = std::make_unique<TraceWriter>(file, std::move(ranks), zero);
    return;
  }
  steps_ = std::make_unique<StepFile>();
  const std::vector<std::string> texts = world->gather_texts(to_text(ranks));
  if (world->first()) {
    ranks.clear();
    for (const std::string& text : texts) {
      const std::vector<TraceRank> of_process = trace_ranks_from(text);
      ranks.insert(ranks.end(), of_process.begin(), of_process.end());
    }
    writer_ = std::make_unique<TraceWriter>(file, std::move(ranks), zero);
    writer_->set_several_processes();
  }
  first_clocks_ = read_clocks(world->everyone());
}

void TraceRecorder::add(const TraceStep& step, std::span<const SpanLog> ranks) {
  if (steps_) return steps_->write(step, ranks);
  traced_.clear();
  for (const SpanLog& log : ranks) traced_.push_back({step, log.spans()});
  writer_->write_step(traced_);
}

double TraceRecorder::join() {
  const std::vector<ClockReading> last_clocks = read_clocks(world_->everyone());
  if (!world_->first()) {
    steps_->send(world_->everyone(), 0);
    return 0;
  }
  std::vector<StepReader> readers;
  std::vector<AlignedClock> clocks;
  std::int64_t uncertainty = 0;
  for (int process = 0; process < world_->size(); ++process) {
    const auto index = static_cast<std::size_t>(process);
    readers.push_back(process == 0 ? StepReader(*steps_) : StepReader(world_->everyone(), process));
    clocks.emplace_back(first_clocks_[index], last_clocks[index]);
    uncertainty = std::max(uncertainty, clocks.back().uncertainty());
  }
  std::vector<NotedStep> noted(readers.size());
  for (;;) {
    std::size_t read = 0;
    traced_.clear();
    for (std::size_t process = 0; process < readers.size(); ++process) {
      if (!readers[process].next(noted[process])) continue;
      ++read;
      if (process > 0) move_times(clocks[process], noted[process]);
      for (const std::vector<Span>& spans : noted[process].ranks) traced_.push_back({noted[process].step, spans});
    }
    if (read == 0) break;
    TRIFOLD_CHECK(read == readers.size(), "{} of {} processes have noted a step", read, readers.size());
    writer_->write_step(traced_);
  }
  // Two processes may each be off by so much against process 0, in other directions.
  const double most_us = (world_->size() > 2 ? 2.0 : 1.0) * static_cast<double>(uncertainty) / 1e3;
  writer_->note("clock_uncertainty_us", most_us);
  writer_->note("processes", world_->size());
  return most_us;
}

double TraceRecorder::finish() {
  const double uncertainty_us = world_ == nullptr ? 0 : join();
  if (writer_) writer_->finish();
  return uncertainty_us;
}

}  // namespace trifold
