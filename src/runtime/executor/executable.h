// A Program bound to a device's memory, ready to run. Parameters, gradients and optimiser state belong to the model
// (ModelMemory) and are shared by the training and the evaluation program; the arena is shared too, since only one of
// them runs at a time. The device may work on a step after the call that gave it has returned: reading a result waits.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/compiler/program.h"
#include "runtime/core/device.h"
#include "runtime/core/error.h"

namespace trifold {

// Memory by region, as large as the programs that share it need.
class ModelMemory {
 public:
  ModelMemory(Device& device, std::span<const Program* const> programs);

  Device& device() const { return *device_; }
  std::byte* at(const Place& place) const;
  std::byte* region(Region which) const { return regions_[static_cast<int>(which)].data(); }
  std::size_t total_bytes() const;

 private:
  Device* device_;
  DeviceMemory regions_[kRegions];
};

class Executable {
 public:
  Executable(Program program, ModelMemory& memory);

  const Program& program() const { return program_; }

  // The next batch: host memory to fill. It goes to the device with submit_inputs(), or else with the next run().
  float* images() { return input<float>(program_.graph.images); }
  std::uint8_t* raw_images() { return input<std::uint8_t>(program_.graph.images); }  // of a program that prepares them
  bool reads_raw_images() const { return program_.graph[program_.graph.images].dtype == DType::u8; }
  std::int32_t* labels() { return input<std::int32_t>(program_.graph.labels); }
  float* targets() { return input<float>(program_.graph.targets); }
  void submit_inputs();

  // All forward and backward nodes; the results lie in the reports and gradients.
  void run(const StepContext& context);
  // run() and update() as one piece of work.
  void step(const StepContext& context);
  // The optimiser's update. With accumulation, accumulate() once after each run() before it.
  void accumulate(bool first, const StepContext& context);
  void update(const StepContext& context);

  struct Report {
    double loss = 0;
    double correct = 0;
  };
  Report report() const;  // of the last run
  double loss() const { return report().loss; }
  double correct() const { return report().correct; }

  // A value in row-major order, whatever its layout (parameters, states, outputs).
  std::vector<float> read(ValueId id) const;
  void write(ValueId id, std::span<const float> plain) const;

  std::byte* device_data(ValueId id) const { return memory_->at(program_.memory.places[static_cast<std::size_t>(id)]); }

  // A device that can records a step once and replays it (CUDA graphs). On unless switched off.
  void record_steps(bool on) { recording_ = on; }

  // Seconds spent in each node, added up while on. Only of devices that do work when it is given.
  void time_nodes(bool on) { timing_ = on; }
  const std::vector<double>& node_seconds() const { return node_seconds_; }

 private:
  // Work that is given again and again: plainly at first (libraries make themselves ready), then recorded and replayed.
  struct Repeated {
    int given = 0;
    std::unique_ptr<Recording> recording;
  };
  template <class T>
  T* input(ValueId id) {
    const TensorDesc& desc = program_.descs[static_cast<std::size_t>(id)];
    TRIFOLD_CHECK(size_of(desc.dtype) == sizeof(T), "'{}' is {}", program_.graph[id].name, to_string(desc));
    inputs_pending_ = true;
    return reinterpret_cast<T*>(inputs_->host() + program_.memory.places[static_cast<std::size_t>(id)].offset);
  }
  void deliver_inputs();
  void run_nodes(std::size_t begin, std::size_t end, const StepContext& context);
  void repeat(Repeated& work, std::size_t begin, std::size_t end, const StepContext& context);

  Program program_;
  ModelMemory* memory_;
  std::unique_ptr<InputPort> inputs_;
  bool inputs_pending_ = false;    // being filled
  bool inputs_submitted_ = false;  // on their way
  std::size_t update_begin_ = 0;   // first node of phase update
  bool recording_ = true;
  Repeated run_, step_, update_, accumulate_first_, accumulate_next_;
  bool timing_ = false;
  std::vector<double> node_seconds_;
};

}  // namespace trifold
