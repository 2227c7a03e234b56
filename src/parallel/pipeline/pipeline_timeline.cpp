#include "parallel/pipeline/pipeline_timeline.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/error.h"

namespace trifold {
namespace {

class Player {
 public:
  Player(const Pipeline& pipeline, const std::vector<StageCost>& costs, double transfer)
      : pipeline_(pipeline), costs_(costs), transfer_(transfer) {
    TRIFOLD_CHECK(std::ssize(costs) == pipeline.stages, "{} costs for {} stages", costs.size(), pipeline.stages);
    for (int stage = 0; stage < pipeline.stages; ++stage) orders_.push_back(actions_of(pipeline, stage));
    const auto parts = static_cast<std::size_t>(pipeline.stages * pipeline.chunks * pipeline.micro_batches);
    forward_end_.resize(parts);
    backward_end_.resize(parts);
    timeline_.stages.resize(orders_.size());
    timeline_.held.resize(orders_.size());
  }

  Timeline run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int stage = 0; stage < pipeline_.stages; ++stage)
        while (advance(stage)) moved = true;
    }
    for (int stage = 0; stage < pipeline_.stages; ++stage) finish(stage);
    return std::move(timeline_);
  }

 private:
  // A chunk's place in the network, and the ends of its work by that and the micro-batch.
  int place(int stage, const Action& action) const { return action.chunk * pipeline_.stages + stage; }
  std::optional<double>& end_of(std::vector<std::optional<double>>& ends, int place, int micro_batch) {
    return ends[static_cast<std::size_t>(place * pipeline_.micro_batches + micro_batch)];
  }

  double cost(int stage, Work work) const {
    const StageCost& all = costs_[static_cast<std::size_t>(stage)];
    const double chunks = pipeline_.chunks;
    switch (work) {
      case Work::forward:
        return all.forward / chunks;
      case Work::input_gradient:
        return (all.repeated_forward + all.input_gradient) / chunks;
      case Work::weight_gradient:
        return all.weight_gradient / chunks;
      case Work::backward:
        break;
    }
    return (all.repeated_forward + all.input_gradient + all.weight_gradient) / chunks;
  }

  // When what the action needs is there; nothing if that is not known yet.
  std::optional<double> ready(int stage, const Action& action) {
    const int here = place(stage, action);
    const int last = pipeline_.stages * pipeline_.chunks - 1;
    if (action.work == Work::weight_gradient) return end_of(backward_end_, here, action.micro_batch);
    if (action.work == Work::forward) {
      if (here == 0) return 0.0;
      const auto before = end_of(forward_end_, here - 1, action.micro_batch);
      return before ? std::optional(*before + transfer_) : std::nullopt;
    }
    const auto forward = end_of(forward_end_, here, action.micro_batch);
    if (here == last || !forward) return forward;
    const auto after = end_of(backward_end_, here + 1, action.micro_batch);
    const double repeats = costs_[static_cast<std::size_t>(stage)].repeated_forward / pipeline_.chunks;
    return after ? std::optional(std::max(*forward, *after + transfer_ - repeats)) : std::nullopt;
  }

  bool advance(int stage) {
    auto& done = timeline_.stages[static_cast<std::size_t>(stage)];
    const auto& order = orders_[static_cast<std::size_t>(stage)];
    if (done.size() == order.size()) return false;
    const Action& action = order[done.size()];
    const std::optional<double> when = ready(stage, action);
    if (!when) return false;
    const double begin = std::max(*when, done.empty() ? 0.0 : done.back().end);
    const double end = begin + cost(stage, action.work);
    done.push_back({action, begin, end});
    const int here = place(stage, action);
    if (action.work == Work::forward) end_of(forward_end_, here, action.micro_batch) = end;
    if (action.work == Work::backward || action.work == Work::input_gradient)
      end_of(backward_end_, here, action.micro_batch) = end;
    return true;
  }

  void finish(int stage) {
    const auto at = static_cast<std::size_t>(stage);
    const auto& done = timeline_.stages[at];
    if (done.size() < orders_[at].size())
      fail_runtime("stage {} waits for ever before {}", stage, to_string(orders_[at][done.size()]));
    int held = 0;
    for (const TimedAction& each : done) {
      if (each.action.work == Work::forward) timeline_.held[at] = std::max(timeline_.held[at], ++held);
      if (each.action.work == Work::backward || each.action.work == Work::weight_gradient) --held;
    }
    timeline_.total = std::max(timeline_.total, done.back().end);
    timeline_.busiest = std::max(timeline_.busiest, costs_[at].sum() * pipeline_.micro_batches);
  }

  Pipeline pipeline_;
  const std::vector<StageCost>& costs_;
  double transfer_;
  std::vector<std::vector<Action>> orders_;
  std::vector<std::optional<double>> forward_end_;
  std::vector<std::optional<double>> backward_end_;  // of the input's gradient
  Timeline timeline_;
};

}  // namespace

Timeline play(const Pipeline& pipeline, const std::vector<StageCost>& costs, double transfer) {
  return Player(pipeline, costs, transfer).run();
}

std::string to_text(const Timeline& timeline, double unit) {
  std::size_t width = 1;
  for (const auto& stage : timeline.stages)
    for (const TimedAction& each : stage) width = std::max(width, to_string(each.action).size());
  const auto column = [&](double time) { return static_cast<std::size_t>(std::lround(time / unit)) * (width + 1); };
  std::string text;
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    std::string line(column(timeline.total), ' ');
    for (std::size_t at = 0; at < line.size(); at += width + 1) line[at] = '.';
    for (const TimedAction& each : timeline.stages[stage]) {
      const std::size_t from = column(each.begin);
      std::fill(line.begin() + static_cast<std::ptrdiff_t>(from),
                line.begin() + static_cast<std::ptrdiff_t>(column(each.end)), ' ');
      line.replace(from, to_string(each.action).size(), to_string(each.action));
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += fmt::format("stage {}  {}\n", stage, line);
  }
  return text;
}

}  // namespace trifold
