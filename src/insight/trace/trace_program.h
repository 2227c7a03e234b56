// What a trace says of a rank's nodes: names, sizes, whom they exchange with, the memory that is in use while they run.
// It is apart from the model, so that the process that writes the trace can know it of other processes' ranks too.
#pragma once

#include <string>
#include <vector>

#include "runtime/train/parallel_model.h"

namespace trifold {

// What a slice is, for the filters of Perfetto and for whoever reads a trace back: what a step's time was spent on.
struct TraceCategory {
  static constexpr const char* forward = "forward";
  static constexpr const char* input_gradient = "input gradient";
  static constexpr const char* weight_gradient = "weight gradient";
  static constexpr const char* update = "update";
  static constexpr const char* communication = "communication";  // a collective, with the wait for the others in it
  static constexpr const char* message = "message";              // between stages: most of it is waiting
  static constexpr const char* input = "input";                  // waiting for a batch, copying it
  static constexpr const char* idle = "idle";                    // before a rank's part of the step, and after it
  static constexpr const char* host = "host";                    // after the step's work
  static constexpr const char* step = "step";                    // around all of a step
  static constexpr const char* layer = "layer";                  // around a layer's kernels
  static constexpr const char* aside = "aside";                  // a sum that is under way while the rank computes
};

struct TraceNode {
  std::string name = {};      // of the op
  std::string category = {};  // "" of a node that never runs
  std::string layer = {};     // "" of what belongs to none
  std::string group = {};     // "F conv1": the slice around it
  std::string kernel = {};
  double flops = 0;
  double bytes = 0;  // read and written; of an exchange, the tensor's

  // Of an exchange.
  std::string axis = {};
  std::vector<int> ranks = {};  // that take part
  double sent_bytes = 0;        // by this rank
  bool aside = false;           // begins a sum that the next `joins` waits for
  bool joins = false;
  int made_by = -1;  // of a sum of gradients: the node that makes the last of them
  // Of a message: what it has in common with its other side, besides the micro-batch.
  bool is_message = false;
  bool sends = false;
  std::vector<int> message = {};  // the pair of stages' replica and tensor part, the route, the tag

  // Memory of this program while the node runs, besides what is always there: of the arena, of the micro-batch's slot;
  // and of the slot when the node has run.
  double arena_bytes = 0;
  double kept_bytes = 0;
  double kept_after = 0;
};

struct TraceRank {
  int rank = 0;
  std::string name = {};  // "rank 1 (data 0, stage 1, tensor 0)"
  double fixed_bytes = 0;
  std::vector<std::vector<TraceNode>> chunks = {};  // by chunk and node
};

// Of the ranks here.
std::vector<TraceRank> trace_ranks_of(const ParallelModel& model);

// For the way to another process.
std::string to_text(const std::vector<TraceRank>& ranks);
std::vector<TraceRank> trace_ranks_from(const std::string& text);

}  // namespace trifold
