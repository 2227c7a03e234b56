// A Program bound to memory, ready to run. Parameters, gradients and optimiser state belong to the model (ModelMemory)
// and are shared by the training and the evaluation program; the arena is shared too, since only one of them runs at a
// time.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/compiler/program.h"
#include "runtime/core/aligned_memory.h"

namespace trifold {

// Memory by region, as large as the programs that share it need.
class ModelMemory {
 public:
  explicit ModelMemory(std::span<const Program* const> programs);

  std::byte* at(const Place& place) const;
  std::byte* arena() const { return regions_[static_cast<int>(Region::arena)].data(); }
  std::size_t total_bytes() const;

 private:
  AlignedMemory regions_[kRegions];
};

class Executable {
 public:
  Executable(Program program, ModelMemory& memory);

  const Program& program() const { return program_; }

  // All forward and backward nodes; the results lie in the reports and gradients.
  void run(const StepContext& context);
  // The optimiser's update. With accumulation, accumulate() once after each run() before it.
  void accumulate(bool first, const StepContext& context);
  void update(const StepContext& context);

  float* images() const { return data<float>(program_.graph.images); }
  std::int32_t* labels() const { return data<std::int32_t>(program_.graph.labels); }
  float* targets() const { return data<float>(program_.graph.targets); }
  double loss() const { return data<double>(program_.graph.report)[0]; }
  double correct() const { return data<double>(program_.graph.report)[1]; }

  // A value in row-major order, whatever its layout (parameters, states, outputs).
  std::vector<float> read(ValueId id) const;
  void write(ValueId id, std::span<const float> plain) const;

  template <class T>
  T* data(ValueId id) const {
    return reinterpret_cast<T*>(memory_->at(program_.memory.places[static_cast<std::size_t>(id)]));
  }

  // Seconds spent in each node, added up while on.
  void time_nodes(bool on) { timing_ = on; }
  const std::vector<double>& node_seconds() const { return node_seconds_; }

 private:
  void run_node(std::size_t index, const StepContext& context);

  Program program_;
  ModelMemory* memory_;
  std::size_t update_begin_ = 0;  // first node of phase update
  bool timing_ = false;
  std::vector<double> node_seconds_;
};

}  // namespace trifold
