// Who owns each byte of a rank's memory during one step: the compiled programs' memory plans laid over the order in
// which the rank ran their nodes. Places are the plan's own, so what is drawn of them is where things really lay.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/executor/span_log.h"
#include "runtime/train/parallel_model.h"

namespace trifold {

// What memory is held for, in the order that a picture stacks it: what outlasts the step comes first.
enum class MemoryKind {
  parameters,
  optimizer_state,
  weight_gradients,
  layer_states,  // running statistics, the loss scale, reports
  batch,
  communication,        // copies on their way to another rank
  parameter_copies,     // whole for a moment (ZeRO), or as a micro-batch began with them (PipeDream)
  kept_activations,     // from forward to backward work
  passing_activations,  // within forward or within backward work
  activation_gradients,
  scratch,
};
inline constexpr int kMemoryKinds = 11;
const char* name_of(MemoryKind kind);

struct MemoryOwner {
  std::string name = {};   // "conv1.weight"
  std::string layer = {};  // "" of what belongs to none
  MemoryKind kind = MemoryKind::scratch;
  auto operator<=>(const MemoryOwner&) const = default;
};

// Bytes that an owner holds from the begin of one moment to the end of another.
struct MemoryLife {
  int owner = 0;
  int first = 0;
  int last = 0;
  std::size_t offset = 0;  // in all of the rank's memory, regions one after the other
  std::size_t bytes = 0;
  auto operator<=>(const MemoryLife&) const = default;
};

// A node being run.
struct MemoryMoment {
  int node = 0;  // index into `nodes`
  int micro_batch = 0;
  double begin_ms = 0;  // since the step's first node
};

struct MemoryRegion {
  std::string name = {};  // "arena"; of a rank with several chunks "chunk 1: arena"
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

struct MemoryTimeline {
  std::vector<int> ranks = {};          // that all hold the same; the times are the first one's
  std::size_t bytes = 0;                // that the training programs take
  std::size_t evaluation_bytes = 0;     // more, that only evaluating needs
  std::vector<std::string> nodes = {};  // "conv1 conv2d.forward F"
  std::vector<MemoryMoment> moments = {};
  double end_ms = 0;
  std::vector<MemoryRegion> regions = {};
  std::vector<MemoryOwner> owners = {};
  std::vector<MemoryLife> lives = {};

  std::vector<std::size_t> live_bytes() const;  // by moment
};

// `spans`: what the rank noted of one step.
MemoryTimeline memory_timeline(const ParallelModel& model, int rank, std::span<const Span> spans);

// Adds a rank's to the others', to one that holds the same where there is one.
void join_timeline(std::vector<MemoryTimeline>& timelines, MemoryTimeline next);

// {"kinds": [..], "timelines": [{"ranks", "bytes", "evaluation_bytes", "peak_bytes", "peak_moment", "end_ms", "nodes",
// "moments": {"node", "micro_batch", "begin_ms"}, "regions": [{"name", "offset", "bytes"}], "layers": [..],
// "owners": [[name, layer, kind]], "lives": [[owner, first, last, offset, bytes]]}]}; layer and kind are indices.
nlohmann::ordered_json to_json(const std::vector<MemoryTimeline>& timelines);

}  // namespace trifold
