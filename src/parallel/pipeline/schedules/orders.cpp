#include "parallel/pipeline/schedules/orders.h"

namespace trifold {
namespace {

// Counts which micro-batch of which chunk comes next. With several chunks a stage takes one micro-batch for each stage
// through a chunk before it turns to the next chunk; backward the chunks come in reverse.
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

}  // namespace

std::vector<Action> fill_alternate_empty(const Pipeline& pipeline, int filling) {
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

std::vector<Action> fill_alternate_empty(const Pipeline& pipeline, const LateWeightGradients& late) {
  Turn forward(pipeline, Work::forward);
  Turn input_gradient(pipeline, Work::input_gradient);
  Turn weight_gradient(pipeline, Work::weight_gradient);
  std::vector<Action> actions;
  for (int i = 0; i < late.filling && !forward.done(); ++i) actions.push_back(forward.next());
  while (!input_gradient.done()) {
    actions.push_back(input_gradient.next());
    if (input_gradient.taken() - weight_gradient.taken() > late.waiting) actions.push_back(weight_gradient.next());
    if (!forward.done()) actions.push_back(forward.next());
  }
  while (!weight_gradient.done()) actions.push_back(weight_gradient.next());
  return actions;
}

double bubble_of_filling(const Pipeline& pipeline) {
  return (pipeline.stages - 1.0) / (pipeline.chunks * pipeline.micro_batches);
}

}  // namespace trifold
