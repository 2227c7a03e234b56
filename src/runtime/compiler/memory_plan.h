// Where every value lies. Parameters, gradients and states have places of their own that outlive the step; activations,
// their gradients and the kernels' scratch share one arena, in which memory is used again as soon as it is free.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "layers/graph.h"

namespace trifold {

enum class Region {
  none,
  arena,
  parameters,   // flat: all trained parameters, one after the other
  gradients,    // flat, at the parameters' offsets
  accumulated,  // flat: gradients summed over micro-batches
  optimizer,    // flat: the optimiser's state, as often as it needs the size of the parameters
  states,
  inputs,
  reports,
};
const char* name_of(Region region);
inline constexpr int kRegions = 9;

struct Place {
  Region region = Region::none;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// A stretch of arena and the nodes (first to last) during which it is taken.
struct ArenaBlock {
  std::string name;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<Place> places;                // one a value; region none: never in memory
  std::vector<std::size_t> scratch_offset;  // one a node, into the arena
  std::vector<ArenaBlock> blocks;           // largest first
  std::size_t region_bytes[kRegions] = {};

  std::size_t bytes(Region region) const { return region_bytes[static_cast<int>(region)]; }
  std::size_t total_bytes() const;
};

// scratch_bytes: one a node.
MemoryPlan plan_memory(const Graph& graph, const std::vector<TensorDesc>& descs,
                       const std::vector<std::size_t>& scratch_bytes);

}  // namespace trifold
