// A Program bound to a device's memory, ready to run. Parameters, gradients and optimiser state belong to the model
// (ModelMemory) and are shared by the training and the evaluation program; the arena is shared too, since only one of
// them runs at a time. The device may work on a step after the call that gave it has returned: reading a result waits.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/error.h"
#include "parallel/pipeline/pipeline_schedule.h"
#include "runtime/compiler/program.h"
#include "runtime/executor/node_watcher.h"
#include "runtime/executor/rank_activity.h"
#include "runtime/executor/span_log.h"

namespace trifold {

// Memory by region, as large as the programs that share it need.
class ModelMemory {
 public:
  ModelMemory(Device& device, std::span<const Program* const> programs);

  Device& device() const { return *device_; }
  std::byte* at(const Place& place) const;
  std::byte* region(Region which) const { return regions_[static_cast<int>(which)].data(); }
  std::size_t bytes(Region which) const { return regions_[static_cast<int>(which)].bytes(); }
  std::size_t total_bytes() const;

 private:
  Device* device_;
  DeviceMemory regions_[kRegions];
};

class Executable {
 public:
  Executable(Program program, ModelMemory& memory);

  const Program& program() const { return program_; }
  int slots() const { return program_.memory.slots; }

  // The next micro-batch of a slot: host memory to fill. It goes to the device with submit_inputs(), or else with the
  // work that reads it.
  float* images(int slot = 0) { return input<float>(program_.graph.images, slot); }
  std::uint8_t* raw_images(int slot = 0) { return input<std::uint8_t>(program_.graph.images, slot); }
  bool reads_raw_images() const { return program_.graph[program_.graph.images].dtype == DType::u8; }
  std::int32_t* labels(int slot = 0) { return input<std::int32_t>(program_.graph.labels, slot); }
  float* targets(int slot = 0) { return input<float>(program_.graph.targets, slot); }
  void submit_inputs(int slot = 0);

  // All forward and backward nodes; the results lie in the reports and gradients.
  void run(const StepContext& context);
  // One part of a micro-batch's work, which keeps what later parts read in its slot.
  void run(Work work, int slot, const StepContext& context);
  // run() and update() as one piece of work.
  void step(const StepContext& context);
  // The exchange of gradients and the optimiser's update, if it is here. With accumulation, accumulate() once after
  // each run() before.
  void accumulate(bool first, const StepContext& context);
  void update(const StepContext& context);
  // Of replicas that update on their own: all get the mean of their models.
  void average(const StepContext& context);

  // What was sent from a slot's memory has arrived before work that is given from now on. Taking the slot does it, too:
  // this is for memory that another program shares.
  void settle(int slot = 0);

  struct Report {
    double loss = 0;
    double correct = 0;
  };
  Report report() const;  // of the last run; zeros where the loss is another rank's
  // The same of several runs, added up, without waiting for each.
  void take_report();
  Report collect_reports();
  double loss() const { return report().loss; }
  double correct() const { return report().correct; }

  // A value in row-major order, whatever its layout (parameters, states, outputs).
  std::vector<float> read(ValueId id) const;
  void write(ValueId id, std::span<const float> plain) const;
  // Where the gradients are that an update reads.
  Region summed_gradients() const { return accumulate_first_.nodes.empty() ? Region::gradients : Region::accumulated; }

  std::byte* device_data(ValueId id, int slot = 0) const;

  // A node's kernel, to bind and run elsewhere between steps. It is bound here again before it runs next.
  Kernel& lend(std::size_t node) {
    bound_to_[node] = -1;
    return *program_.kernels[node];
  }

  // A device that can records a step once and replays it (CUDA graphs). On unless switched off.
  void record_steps(bool on) { recording_ = on; }

  // Seconds spent in each node, added up while on; a send's include the wait until its slot is free again. Only of
  // devices that do work when it is given. `log`: each time also goes there.
  void time_nodes(bool on, SpanLog* log = nullptr) {
    timing_ = on;
    log_ = log;
  }
  const std::vector<double>& node_seconds() const { return node_seconds_; }

  // From now on every node is announced there, by a device that does work when it is given. Null: no more.
  void announce_nodes(RankActivity* activity);
  Activity activity_of(std::size_t node) const;
  // Likewise. What a watcher does is no part of a node's seconds.
  void watch_nodes(NodeWatcher* watcher) { watcher_ = memory_->device().host_memory() ? watcher : nullptr; }

 private:
  // Work that is given again and again: plainly at first (libraries make themselves ready), then recorded and replayed.
  struct Repeated {
    int given = 0;
    std::unique_ptr<Recording> recording;
  };
  // Nodes that are given together, and what was recorded of them, by slot.
  // A message waits for its other side, apart from this rank's work: as part of a recording, which ends as a whole, it
  // would keep this rank waiting, too, so work with messages is not recorded. Collectives are.
  struct Sequence {
    std::string name = {};
    std::vector<std::size_t> nodes = {};
    std::vector<Repeated> by_slot = {};
    bool recordable = true;
  };
  struct Input {
    std::unique_ptr<InputPort> port;
    bool pending = false;    // being filled
    bool submitted = false;  // on its way
  };
  template <class T>
  T* input(ValueId id, int slot) {
    const TensorDesc& desc = program_.descs[static_cast<std::size_t>(id)];
    TRIFOLD_CHECK(size_of(desc.dtype) == sizeof(T), "'{}' is {}", program_.graph[id].name, to_string(desc));
    Input& input = inputs_[static_cast<std::size_t>(slot)];
    input.pending = true;
    return reinterpret_cast<T*>(input.port->host() + program_.memory.places[static_cast<std::size_t>(id)].offset);
  }
  template <class Belongs>
  Sequence sequence_of(const char* name, Belongs belongs) const;
  Sequence& sequence(Work work);
  void bind(std::size_t node, int slot);
  void enter(int slot);
  void announce(std::size_t node, Activity activity) {
    if (activity_ != nullptr) activity_->begin(activity, static_cast<std::int64_t>(node));
  }
  template <class Do>
  void timed(Span::Kind kind, std::size_t node, Do work);
  void run_nodes(const Sequence& sequence, const StepContext& context);
  void run_named_nodes(const Sequence& sequence, const StepContext& context);
  void give(Sequence& sequence, int slot, const StepContext& context);

  Program program_;
  ModelMemory* memory_;
  std::vector<Input> inputs_;                   // by slot
  std::unique_ptr<ResultPort> reports_;         // null: the loss is another rank's
  std::vector<std::string> labels_;             // of nodes, for tools that watch a device; none of the host
  std::vector<int> bound_to_;                   // slot of each node
  std::vector<std::byte*> in_data_, out_data_;  // of the node being bound
  bool recording_ = true;
  Sequence forward_, backward_, input_gradient_, weight_gradient_, run_, step_, accumulate_first_, accumulate_next_,
      update_, average_, sends_;
  bool timing_ = false;
  SpanLog* log_ = nullptr;
  std::vector<double> node_seconds_;
  RankActivity* activity_ = nullptr;        // null: nobody looks on
  std::vector<Activity> activity_of_ = {};  // by node, where somebody does
  NodeWatcher* watcher_ = nullptr;          // null: there is none
};

}  // namespace trifold
