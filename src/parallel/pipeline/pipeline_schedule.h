// The order in which each stage of a pipeline works: which micro-batch it takes next, forward or backward. A pure
// function of the pipeline's shape, so that the order can be printed, compared and played (pipeline_timeline.h) before
// any rank exists. Every schedule is one file in schedules/, which registers it under its name in job files; nothing
// else needs to know of it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trifold {

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

struct Pipeline;
struct StageCost;

struct PipelineSchedule {
  std::string_view name = {};  // in job files
  std::string_view help = {};  // one line
  int position = 0;            // in lists of schedules, which go by this and then by name

  // Traits, which the rest of the code asks for instead of comparing names.
  bool splits_backward = false;            // into input gradients and weight gradients: two actions
  bool updates_every_micro_batch = false;  // each with gradients of the weights that its forward work saw
  bool has_chunks = false;                 // two or more runs of layers per stage; otherwise one
  bool in_rounds = false;                  // the stages' number divides the number of micro-batches

  // What one stage does in a step, first to last. actions_of() has checked the pipeline.
  std::vector<Action> (*actions)(const Pipeline& pipeline, int stage) = nullptr;

  // Closed formulas, to which the tests hold the order as it is played. `bubble` is waiting relative to work, for
  // stages of equal cost; it has no value where the formula does not hold, as with too few micro-batches to fill the
  // pipeline. `held` is the most micro-batches (per chunk) that a stage has between forward and the end of backward.
  std::optional<double> (*bubble)(const Pipeline& pipeline, const StageCost& cost) = nullptr;
  int (*held)(const Pipeline& pipeline, int stage) = nullptr;

  // The place in lists.
  bool operator<(const PipelineSchedule& other) const {
    return position != other.position ? position < other.position : name < other.name;
  }
};

// At namespace scope in the schedule's file.
struct RegisterSchedule {
  explicit RegisterSchedule(const PipelineSchedule& schedule);
};

inline constexpr std::string_view kDefaultSchedule = "1f1b";

const std::set<PipelineSchedule>& pipeline_schedules();
const PipelineSchedule& pipeline_schedule(std::string_view name);  // an input error lists the names
std::vector<std::string> pipeline_schedule_names();
std::vector<std::string> chunked_schedule_names();  // those that have chunks

struct Pipeline {
  const PipelineSchedule* schedule = &pipeline_schedule(kDefaultSchedule);
  int stages = 1;
  int micro_batches = 1;
  int chunks = 1;  // of layers, per stage; layer chunk c of stage s is the (c * stages + s)th of the network
};

// Throws an input error if the schedule cannot order such a pipeline: the wrong number of chunks, or micro-batches that
// are no whole rounds.
void check_pipeline(const Pipeline& pipeline);

// What one stage does in a step, first to last.
std::vector<Action> actions_of(const Pipeline& pipeline, int stage);

// For a schedule that updates after every micro-batch: how many updates a stage makes between a micro-batch's forward
// and its backward work, by micro-batch. Its gradients are of weights that are so much older than those they change.
std::vector<int> staleness_of(const Pipeline& pipeline, int stage);

std::string to_string(const Action& action);  // "F3", "B3", "b3" and "w3" for its two halves, "F3.1" of chunk 1

}  // namespace trifold
