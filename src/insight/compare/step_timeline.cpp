#include "insight/compare/step_timeline.h"

#include <algorithm>

#include "insight/work/traffic.h"

namespace trifold {
namespace {

constexpr double kGap_ms = 0.05;  // what is longer is seen as a gap

const char* work_of(const ParallelModel& model, int rank, const Span& span) {
  if (span.kind == Span::Kind::input) return "input";
  if (span.kind == Span::Kind::settle || span.kind == Span::Kind::idle) return "idle";
  const Graph& graph = model.chunks(rank)[static_cast<std::size_t>(span.chunk)]->training().program().graph;
  const Node& node = graph.nodes[static_cast<std::size_t>(span.node)];
  if (const Exchange* exchange = exchange_of(node)) return exchange->is_message() ? "idle" : "comm";
  return name_of(node.phase);
}

}  // namespace

StepTimeline step_timeline(const ParallelModel& model, std::span<const SpanLog> logs) {
  Span::Clock::time_point zero = Span::Clock::time_point::max();
  for (const SpanLog& log : logs)
    for (const Span& span : log.spans()) zero = std::min(zero, span.begin);
  const auto ms = [&](Span::Clock::time_point time) {
    return std::chrono::duration<double, std::milli>(time - zero).count();
  };
  StepTimeline timeline(logs.size());
  for (std::size_t rank = 0; rank < logs.size(); ++rank)
    for (const Span& span : logs[rank].spans()) {
      std::vector<TimelineSpan>& spans = timeline[rank];
      const char* work = work_of(model, static_cast<int>(rank), span);
      const bool goes_on = !spans.empty() && spans.back().work == work &&
                           spans.back().micro_batch == span.micro_batch &&
                           ms(span.begin) - spans.back().end_ms < kGap_ms;
      if (goes_on)
        spans.back().end_ms = ms(span.end);
      else
        spans.push_back({work, span.micro_batch, ms(span.begin), ms(span.end)});
    }
  return timeline;
}

}  // namespace trifold
