// Where every value lies. Parameters, gradients and states have places of their own that outlive the step; activations,
// their gradients and the kernels' scratch share one arena, in which memory is used again as soon as it is free. A
// stage of a pipeline has several micro-batches under way: what one keeps from its forward to its backward work lies in
// a slot of its own, and only the rest shares the arena.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "layers/graph.h"

namespace trifold {

enum class Region {
  none,
  arena,
  kept,         // as many slots as there are micro-batches under way; places are within a slot
  parameters,   // flat: all trained parameters, one after the other
  gradients,    // flat, at the parameters' offsets
  accumulated,  // flat: gradients summed over micro-batches
  optimizer,    // flat: the optimiser's state, as often as it needs the size of the parameters
  states,
  messages,  // copies of what is on its way to another stage, and what replicas have still to tell each other
  inputs,    // slots too
  reports,
};
const char* name_of(Region region);
inline constexpr int kRegions = 11;

struct Place {
  Region region = Region::none;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// A stretch of memory and the nodes (first to last) during which it is taken.
struct ArenaBlock {
  std::string name;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
  Region region = Region::arena;  // or kept
};

struct MemoryPlan {
  std::vector<Place> places;                // one a value; region none: never in memory
  std::vector<std::size_t> scratch_offset;  // one a node, into the arena (lasting memory: into the messages)
  std::vector<ArenaBlock> blocks;           // largest first
  std::size_t region_bytes[kRegions] = {};  // of all slots
  int slots = 1;

  std::size_t slot_bytes(Region region) const {
    return region == Region::kept || region == Region::inputs
               ? region_bytes[static_cast<int>(region)] / static_cast<std::size_t>(slots)
               : 0;
  }
  std::size_t bytes(Region region) const { return region_bytes[static_cast<int>(region)]; }
  std::size_t total_bytes() const;
};

// Whether other micro-batches may come between the parts of one's work (forward, backward; with splits_backward, the
// gradients of weights too), and how many are under way at once.
struct MicroBatches {
  bool interleave = false;
  int slots = 1;
  bool splits_backward = false;
};

// Places that were decided before the plan.
struct GivenPlaces {
  struct Fixed {
    ValueId value = kNoValue;
    Place place;
  };
  // A value of the arena that lies within another one's memory.
  struct Packed {
    ValueId value = kNoValue;
    ValueId pack = kNoValue;
    std::size_t offset = 0;
  };
  std::vector<Fixed> fixed;
  std::vector<Packed> packed;
};

struct FlatLayout;  // runtime/compiler/flat_layout.h

// scratch_bytes: one a node. `flat` says where parameters and gradients lie.
MemoryPlan plan_memory(const Graph& graph, const std::vector<TensorDesc>& descs,
                       const std::vector<std::size_t>& scratch_bytes, const FlatLayout& flat,
                       const MicroBatches& micro_batches = {}, const GivenPlaces& given = {});

}  // namespace trifold
