#include "insight/compare/slowdown.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace trifold {
namespace {

// Below these nobody would look for a cause.
constexpr double kUneven = 0.1;       // slowest stage to the mean
constexpr double kExplains = 0.3;     // of more compute, by more arithmetic
constexpr double kMostOf = 0.5;       // of more arithmetic, by stages that recompute
constexpr double kShareOfLoss = 0.2;  // of the time lost
constexpr double kMegabyte = 1e6;

std::string uneven_stages(const PipelineResult& pipeline) {
  const auto [least, most] = std::ranges::minmax(pipeline.stage_ms);
  double mean = 0;
  for (const double stage : pipeline.stage_ms) mean += stage / static_cast<double>(pipeline.stage_ms.size());
  if (most / mean - 1 < kUneven) return "";
  return fmt::format("its stages are uneven, {:.1f} to {:.1f} ms of work", least, most);
}

std::string cause_of_bubble(const PlanResult& plan) {
  if (!plan.pipeline) return "ranks wait for each other to begin and to end a step";
  std::string uneven = uneven_stages(*plan.pipeline);
  if (!uneven.empty()) return uneven;
  return fmt::format("{} stages fill and drain with {} micro-batches", plan.mesh.pipeline,
                     plan.pipeline->micro_batches);
}

// Of the rank that sends most.
std::string cause_of_communication(const PlanResult& plan) {
  double most = 0;
  std::int64_t calls = 0;
  for (const std::vector<Traffic>& rank : plan.traffic) {
    double sent = 0;
    std::int64_t exchanges = 0;
    for (const Traffic& traffic : rank) {
      sent += traffic.sent;
      exchanges += traffic.calls;
    }
    if (sent > most) calls = exchanges;
    most = std::max(most, sent);
  }
  return fmt::format("a rank sends {:.2f} MB in {} exchange{}", most / kMegabyte, calls, calls == 1 ? "" : "s");
}

std::string cause_of_compute(const PlanResult& plan, const PlanResult& winner, int cores) {
  const double more = plan.arithmetic / winner.arithmetic - 1;
  if (more >= kExplains * (plan.step_ms.compute / winner.step_ms.compute - 1)) {
    const bool repeats = plan.repeated - winner.repeated >= kMostOf * (plan.arithmetic - winner.arithmetic);
    return fmt::format(
        "{} {:.2f} times the arithmetic",
        plan.mesh.tensor > 1 && !repeats ? "every rank computes the layers that are not split:" : "recomputation:",
        1 + more);
  }
  if (cores_used(plan, cores) < cores_used(winner, cores))
    return fmt::format("{} of {} cores are used", cores_used(plan, cores), cores);
  if (plan.threads < winner.threads)
    return fmt::format("{} thread{} a rank, not {}, on smaller tensors", plan.threads, plan.threads == 1 ? "" : "s",
                       winner.threads);
  if (plan.threads > winner.threads)
    return fmt::format("{} threads of one rank wait for each other in every kernel", plan.threads);
  return "the same arithmetic in smaller pieces";
}

struct Loss {
  double ms = 0;
  std::string what;
};

std::vector<Loss> losses_of(const PlanResult& plan, const PlanResult& winner, int cores) {
  const StepSplit& mine = plan.step_ms;
  const StepSplit& best = winner.step_ms;
  std::vector<Loss> losses = {
      {mine.compute - best.compute, fmt::format("compute ({})", cause_of_compute(plan, winner, cores))},
      {mine.exposed_comm - best.exposed_comm, fmt::format("communication ({})", cause_of_communication(plan))},
      {mine.bubble - best.bubble, fmt::format("bubble ({})", cause_of_bubble(plan))},
      {mine.input - best.input, "input"},
      {mine.optimizer - best.optimizer, "the optimizer"}};
  std::ranges::stable_sort(losses, [](const Loss& a, const Loss& b) { return a.ms > b.ms; });
  return losses;
}

std::string sizes_of(const ServedResult& served) {
  const auto most = static_cast<std::size_t>(std::ranges::max_element(served.sent) - served.sent.begin());
  return fmt::format("a worker sends {:.2f} MB and receives {:.2f} MB a step", served.sent[most] / kMegabyte,
                     served.received[most] / kMegabyte);
}

}  // namespace

std::string explain_slowdown(const PlanResult& plan, const PlanResult& winner, int cores) {
  const double lost = plan.step_ms.sum() - winner.step_ms.sum();
  std::string text = fmt::format("{:.1f} ms a step longer ({:.0f} %)", lost, 100 * lost / winner.step_ms.sum());
  const double noise = std::max(plan.spread, winner.spread);
  if (lost / winner.step_ms.sum() < noise)
    text += fmt::format(", less than the rounds differ by ({:.0f} %)", 100 * noise);
  // Where a step is not divided there is no cause to be named, only what there was to do.
  if (plan.served) {
    text += fmt::format("; {}", sizes_of(*plan.served));
    const int processes = plan.served->workers + plan.served->servers;
    if (processes > cores)
      text +=
          fmt::format("; its {} servers and workers take turns on {} core{}", processes, cores, cores == 1 ? "" : "s");
    return text;
  }
  const char* joint = ": ";
  if (!winner.served)
    for (const Loss& loss : losses_of(plan, winner, cores)) {
      if (loss.ms <= 0 || loss.ms < kShareOfLoss * lost) break;
      text += fmt::format("{}{:+.1f} ms of {}", joint, loss.ms, loss.what);
      joint = ", ";
    }
  if (plan.mesh.size() > cores) text += fmt::format("; its {} ranks take turns on {} cores", plan.mesh.size(), cores);
  return text;
}

}  // namespace trifold
