#include "parallel/pipeline/pipeline_schedule.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace trifold {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"gpipe",       "1f1b",           "interleaved",
                                                    "zero-bubble", "zero-bubble-h2", "pipedream"};

std::vector<Action> gpipe(const Pipeline& pipeline) {
  std::vector<Action> actions;
  for (int i = 0; i < pipeline.micro_batches; ++i) actions.push_back({Work::forward, i});
  for (int i = 0; i < pipeline.micro_batches; ++i) actions.push_back({Work::backward, i});
  return actions;
}

// Counts on which micro-batch of which chunk comes next. With several chunks a stage takes one micro-batch for each
// stage through a chunk before it turns to the next chunk; backward the chunks come in reverse.
class Turn {
 public:
  Turn(const Pipeline& pipeline, Work work) : pipeline_(pipeline), work_(work) {}

  Action next() {
    const int round = pipeline_.stages * pipeline_.chunks;
    const int in_round = taken_ % round;
    int chunk = in_round / pipeline_.stages;
    if (work_ != Work::forward) chunk = pipeline_.chunks - 1 - chunk;
    const int micro_batch =
        pipeline_.chunks == 1 ? taken_ : taken_ / round * pipeline_.stages + in_round % pipeline_.stages;
    ++taken_;
    return {work_, micro_batch, chunk};
  }
  bool done() const { return taken_ == pipeline_.micro_batches * pipeline_.chunks; }
  int taken() const { return taken_; }

 private:
  const Pipeline& pipeline_;
  Work work_;
  int taken_ = 0;
};

// Three phases: forwards that fill the pipeline, one forward and one backward in turn, backwards that empty it.
std::vector<Action> one_f_one_b(const Pipeline& pipeline, int stage) {
  const int after = pipeline.stages - 1 - stage;
  const int filling = pipeline.chunks == 1 ? after : 2 * after + (pipeline.chunks - 1) * pipeline.stages;
  Turn forward(pipeline, Work::forward);
  Turn backward(pipeline, Work::backward);
  std::vector<Action> actions;
  for (int i = 0; i < filling && !forward.done(); ++i) actions.push_back(forward.next());
  while (!forward.done()) {
    actions.push_back(forward.next());
    actions.push_back(backward.next());
  }
  while (!backward.done()) actions.push_back(backward.next());
  return actions;
}

// As 1f1b, but gradients of weights wait: a later stage, which starts later, leaves more of them for its end, where
// 1f1b would have it idle.
std::vector<Action> zero_bubble(const Pipeline& pipeline, int stage) {
  const bool h2 = pipeline.kind == PipelineSchedule::zero_bubble_h2;
  const int from_here = pipeline.stages - stage;
  const int filling = h2 ? 2 * from_here - 1 : from_here;
  const int waiting = h2 ? 2 * stage : stage;  // gradients of weights
  Turn forward(pipeline, Work::forward);
  Turn input_gradient(pipeline, Work::input_gradient);
  Turn weight_gradient(pipeline, Work::weight_gradient);
  std::vector<Action> actions;
  for (int i = 0; i < filling && !forward.done(); ++i) actions.push_back(forward.next());
  while (!input_gradient.done()) {
    actions.push_back(input_gradient.next());
    if (input_gradient.taken() - weight_gradient.taken() > waiting) actions.push_back(weight_gradient.next());
    if (!forward.done()) actions.push_back(forward.next());
  }
  while (!weight_gradient.done()) actions.push_back(weight_gradient.next());
  return actions;
}

}  // namespace

std::span<const std::string_view> pipeline_schedule_names() {
  return kNames;
}

PipelineSchedule parse_pipeline_schedule(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) fail_input("there is no schedule '{}'; there are {}", name, fmt::join(kNames, ", "));
  return static_cast<PipelineSchedule>(found - kNames.begin());
}

void check_pipeline(const Pipeline& pipeline) {
  if (pipeline.stages < 1 || pipeline.micro_batches < 1 || pipeline.chunks < 1)
    fail_input("a pipeline has at least one stage, one micro-batch and one chunk, not {}, {} and {}", pipeline.stages,
               pipeline.micro_batches, pipeline.chunks);
  const std::string_view name = kNames[static_cast<std::size_t>(pipeline.kind)];
  if (pipeline.kind != PipelineSchedule::interleaved) {
    if (pipeline.chunks > 1)
      fail_input("the schedule {} has one chunk a stage, not {}; 'interleaved' has several", name, pipeline.chunks);
    return;
  }
  if (pipeline.chunks < 2) fail_input("the schedule interleaved needs at least 2 chunks a stage; '1f1b' has one");
  if (pipeline.micro_batches % pipeline.stages != 0)
    fail_input("the schedule interleaved takes micro-batches in rounds of {} stages: {} do not divide, {} would",
               pipeline.stages, pipeline.micro_batches,
               (pipeline.micro_batches / pipeline.stages + 1) * pipeline.stages);
}

std::vector<Action> actions_of(const Pipeline& pipeline, int stage) {
  check_pipeline(pipeline);
  TRIFOLD_CHECK(stage >= 0 && stage < pipeline.stages, "stage {} of {}", stage, pipeline.stages);
  switch (pipeline.kind) {
    case PipelineSchedule::gpipe:
      return gpipe(pipeline);
    case PipelineSchedule::one_f_one_b:
    case PipelineSchedule::interleaved:
    case PipelineSchedule::pipedream:
      return one_f_one_b(pipeline, stage);
    case PipelineSchedule::zero_bubble_h1:
    case PipelineSchedule::zero_bubble_h2:
      break;
  }
  return zero_bubble(pipeline, stage);
}

std::vector<int> staleness_of(const Pipeline& pipeline, int stage) {
  std::vector<int> seen(static_cast<std::size_t>(pipeline.micro_batches));  // updates at forward, then those since
  int updates = 0;
  for (const Action& action : actions_of(pipeline, stage)) {
    int& mine = seen[static_cast<std::size_t>(action.micro_batch)];
    if (action.work == Work::forward)
      mine = updates;
    else
      mine = updates++ - mine;
  }
  return seen;
}

std::string to_string(const Action& action) {
  constexpr std::string_view kLetters = "FBbw";
  std::string text = fmt::format("{}{}", kLetters[static_cast<std::size_t>(action.work)], action.micro_batch);
  if (action.chunk > 0) text += fmt::format(".{}", action.chunk);
  return text;
}

}  // namespace trifold
