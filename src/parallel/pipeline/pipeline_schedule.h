// The order in which each stage of a pipeline works: which micro-batch it takes next, forward or backward. A pure
// function of the pipeline's shape, so that the order can be printed, compared and played (pipeline_timeline.h) before
// any rank exists.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trifold {

enum class PipelineSchedule {
  gpipe,           // every micro-batch forward, then every one backward
  one_f_one_b,     // backward as early as possible: a stage holds as few micro-batches as there are stages after it
  interleaved,     // 1f1b of several chunks of layers a stage: a smaller bubble for more messages
  zero_bubble_h1,  // 1f1b with gradients of weights kept for the gaps; no more memory than 1f1b's first stage
  zero_bubble_h2,  // more micro-batches under way before the first goes backward: no gap when F = B = W
  pipedream,       // 1f1b in which every micro-batch is an update: none waits, but gradients are of older weights
};

struct Pipeline {
  PipelineSchedule kind = PipelineSchedule::one_f_one_b;
  int stages = 1;
  int micro_batches = 1;
  int chunks = 1;  // of layers, a stage; layer chunk c of stage s is the (c * stages + s)th of the network

  bool splits_backward() const {
    return kind == PipelineSchedule::zero_bubble_h1 || kind == PipelineSchedule::zero_bubble_h2;
  }
  bool updates_every_micro_batch() const { return kind == PipelineSchedule::pipedream; }
};

enum class Work {
  forward,
  backward,         // both gradients
  input_gradient,   // the part that the stage before waits for
  weight_gradient,  // the part that nobody waits for
};

struct Action {
  Work work = Work::forward;
  int micro_batch = 0;
  int chunk = 0;
  bool operator==(const Action&) const = default;
};

// "gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-h2", "pipedream", in the order of PipelineSchedule.
std::span<const std::string_view> pipeline_schedule_names();
PipelineSchedule parse_pipeline_schedule(std::string_view name);  // an input error lists the names

// Throws an input error if there is no such schedule: interleaved needs two chunks or more and micro-batches in whole
// rounds of the stages; the others know one chunk.
void check_pipeline(const Pipeline& pipeline);

// What one stage does in a step, first to last.
std::vector<Action> actions_of(const Pipeline& pipeline, int stage);

// Of pipedream: how many updates a stage makes between a micro-batch's forward and its backward work, by micro-batch.
// Its gradients are of weights that are so much older than those they change.
std::vector<int> staleness_of(const Pipeline& pipeline, int stage);

std::string to_string(const Action& action);  // "F3", "B3", "b3" and "w3" for its two halves, "F3.1" of chunk 1

}  // namespace trifold
