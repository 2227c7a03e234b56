// What a rank sends in a step, from its programs: collectives are counted as a ring sends them, whatever carries them
// out, so that plans can be compared.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/ops/collective.h"
#include "runtime/train/parallel_model.h"

namespace trifold {

// The exchanges of one kind along one axis of the mesh, of one rank. Sizes are a step's.
struct Traffic {
  std::string kind;  // "all_reduce"
  Axis axis = Axis::data;
  int ranks = 1;  // that take part
  std::int64_t calls = 0;
  double bytes = 0;                    // of the tensors: what nccl-tests calls the size
  double sent = 0;                     // by this rank
  double seconds = 0;                  // in them, waits for other ranks included; no messages'
  std::map<int, double> sent_to = {};  // `sent`, by the rank that it goes to; a ring sends to the next
};

// What ranks exchange at this node; null: nothing.
const Exchange* exchange_of(const Node& node);

// By kind and axis; receives are another rank's sends. `timed_steps`: that the model has done.
std::vector<Traffic> traffic_of(const ParallelModel& model, int rank, int timed_steps);

// GB/s as nccl-tests defines them.
struct Bandwidth {
  double algorithm = 0;  // bytes by time
  double bus = 0;        // what each rank had to send, by time
};
Bandwidth bandwidth_of(const Traffic& traffic);

}  // namespace trifold
