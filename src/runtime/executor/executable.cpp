#include "runtime/executor/executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/half.h"
#include "kernels/gpu_plugin.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/gradient_exchange.h"
#include "kernels/ops/optimizer.h"

namespace trifold {
namespace {

std::vector<float> download_floats(Device& device, const std::byte* from, const TensorDesc& desc) {
  std::vector<float> values(static_cast<std::size_t>(desc.elements()));
  if (desc.dtype == DType::f32) {
    device.download(values.data(), from, desc.bytes());
    return values;
  }
  TRIFOLD_CHECK(desc.dtype == DType::f16 || desc.dtype == DType::bf16, "{} are no floats", name_of(desc.dtype));
  std::vector<std::uint16_t> halves(values.size());
  device.download(halves.data(), from, desc.bytes());
  std::ranges::transform(halves, values.begin(), desc.dtype == DType::f16 ? float_from_f16 : float_from_bf16);
  return values;
}

// "conv1 conv2d.forward"
std::string label_of(const Graph& graph, const Node& node) {
  std::string label = node.layer < 0 ? "" : graph.layers[static_cast<std::size_t>(node.layer)].id + " ";
  return label.append(node.op->name());
}

const std::string& phase_of(const Node& node) {
  static const std::string kForward = "forward";
  static const std::string kBackward = "backward";
  static const std::string kUpdate = "update";
  return node.phase == Phase::forward ? kForward : node.phase == Phase::update ? kUpdate : kBackward;
}

// Marks what a device is given as a node's, as long as this object lives.
class Tagged {
 public:
  Tagged(const SpanLog* log, Device& device, std::size_t node)
      : recorder_(log == nullptr ? nullptr : log->recorder()), device_(device) {
    if (recorder_ != nullptr) recorder_->enter(device, log->tag(node));
  }
  ~Tagged() {
    if (recorder_ != nullptr) recorder_->leave(device_);
  }
  Tagged(const Tagged&) = delete;
  Tagged& operator=(const Tagged&) = delete;

 private:
  ActivityRecorder* recorder_;
  Device& device_;
};

}  // namespace

ModelMemory::ModelMemory(Device& device, std::span<const Program* const> programs) : device_(&device) {
  for (int region = 0; region < kRegions; ++region) {
    std::size_t bytes = 0;
    for (const Program* program : programs) bytes = std::max(bytes, program->memory.region_bytes[region]);
    regions_[region] = DeviceMemory(device, bytes);
    // The optimiser's state starts at zero; the arena and the inputs are written before they are read. The host's
    // memory is zero anyway, and is not touched before it is used.
    const auto which = static_cast<Region>(region);
    const bool filled_by_steps = which == Region::arena || which == Region::kept || which == Region::inputs;
    if (bytes > 0 && !filled_by_steps && !device.host_memory()) device.clear(regions_[region].data(), bytes);
  }
}

std::byte* ModelMemory::at(const Place& place) const {
  TRIFOLD_CHECK(place.region != Region::none, "the value is never in memory");
  return regions_[static_cast<int>(place.region)].data() + place.offset;
}

std::size_t ModelMemory::total_bytes() const {
  std::size_t bytes = 0;
  for (const DeviceMemory& region : regions_) bytes += region.bytes();
  return bytes;
}

template <class Belongs>
Executable::Sequence Executable::sequence_of(const char* name, Belongs belongs) const {
  Sequence sequence{.name = name};
  for (std::size_t i = 0; i < program_.graph.nodes.size(); ++i)
    if (program_.kernels[i] && belongs(program_.graph.nodes[i])) {
      sequence.nodes.push_back(i);
      const auto* exchange = dynamic_cast<const Exchange*>(program_.graph.nodes[i].op.get());
      sequence.recordable = sequence.recordable && (exchange == nullptr || !exchange->is_message());
    }
  sequence.by_slot.resize(static_cast<std::size_t>(slots()));
  return sequence;
}

Executable::Executable(Program program, ModelMemory& memory)
    : program_(std::move(program)),
      memory_(&memory),
      bound_to_(program_.graph.nodes.size(), -1),
      node_seconds_(program_.graph.nodes.size(), 0.0) {
  const std::size_t input_bytes = program_.memory.slot_bytes(Region::inputs);
  for (int slot = 0; slot < slots(); ++slot)
    inputs_.push_back({memory.device().make_input(
        memory.region(Region::inputs) + static_cast<std::size_t>(slot) * input_bytes, input_bytes)});
  if (program_.graph.report != kNoValue)
    reports_ = memory.device().make_result(device_data(program_.graph.report), sizeof(Report));
  const auto accumulates = [](const Node& node, bool first) {
    const auto* op = dynamic_cast<const AccumulateGradients*>(node.op.get());
    return op != nullptr && op->first == first;
  };
  const auto averages = [](const Node& node) { return dynamic_cast<const AverageReplicas*>(node.op.get()) != nullptr; };
  const auto updates = [&](const Node& node) {
    return node.phase == Phase::update && !accumulates(node, true) && !accumulates(node, false) && !averages(node);
  };
  forward_ = sequence_of("forward", [](const Node& node) { return node.phase == Phase::forward; });
  input_gradient_ = sequence_of("input gradient", [](const Node& node) { return node.phase == Phase::backward_input; });
  weight_gradient_ =
      sequence_of("weight gradient", [](const Node& node) { return node.phase == Phase::backward_weight; });
  backward_ = sequence_of("backward", [](const Node& node) {
    return node.phase == Phase::backward_input || node.phase == Phase::backward_weight;
  });
  run_ = sequence_of("forward and backward", [](const Node& node) { return node.phase != Phase::update; });
  step_ = sequence_of("step", [&](const Node& node) { return node.phase != Phase::update || updates(node); });
  accumulate_first_ = sequence_of("accumulate", [&](const Node& node) { return accumulates(node, true); });
  accumulate_next_ = sequence_of("accumulate", [&](const Node& node) { return accumulates(node, false); });
  update_ = sequence_of("update", updates);
  average_ = sequence_of("average", averages);
  sends_ = sequence_of("send", [](const Node& node) { return dynamic_cast<const Send*>(node.op.get()) != nullptr; });
  for (std::size_t i = 0; i < program_.graph.nodes.size(); ++i)
    if (program_.kernels[i]) bind(i, 0);
  if (!memory.device().host_memory())
    for (const Node& node : program_.graph.nodes) labels_.push_back(label_of(program_.graph, node));
}

std::byte* Executable::device_data(ValueId id, int slot) const {
  const Place& place = program_.memory.places[static_cast<std::size_t>(id)];
  return memory_->at(place) + static_cast<std::size_t>(slot) * program_.memory.slot_bytes(place.region);
}

void Executable::bind(std::size_t node, int slot) {
  if (bound_to_[node] == slot) return;
  bound_to_[node] = slot;
  const auto find = [&](const std::vector<ValueId>& ids, std::vector<std::byte*>& data) {
    data.clear();
    for (const ValueId id : ids) data.push_back(device_data(id, slot));
  };
  const Node& bound = program_.graph.nodes[node];
  find(bound.in, in_data_);
  find(bound.out, out_data_);
  const Region region = program_.kernels[node]->lasting_bytes() > 0 ? Region::messages : Region::arena;
  program_.kernels[node]->bind(in_data_, out_data_, memory_->region(region) + program_.memory.scratch_offset[node]);
}

template <class Do>
void Executable::timed(Span::Kind kind, std::size_t node, Do work) {
  if (!timing_) return work();
  const Tagged tagged(log_, memory_->device(), node);
  const auto begin = Span::Clock::now();
  work();
  const auto end = Span::Clock::now();
  node_seconds_[node] += std::chrono::duration<double>(end - begin).count();
  if (log_ != nullptr) log_->add(kind, static_cast<std::int32_t>(node), begin, end);
}

// A range a phase, and in it a range a node.
void Executable::run_named_nodes(const Sequence& sequence, const StepContext& context) {
  GpuPlugin& plugin = *find_gpus().plugin;
  const std::vector<Node>& nodes = program_.graph.nodes;
  for (std::size_t at = 0; at < sequence.nodes.size();) {
    const std::string& phase = phase_of(nodes[sequence.nodes[at]]);
    const GpuRange whole(plugin, phase);
    for (; at < sequence.nodes.size() && phase_of(nodes[sequence.nodes[at]]) == phase; ++at) {
      const std::size_t i = sequence.nodes[at];
      const GpuRange range(plugin, labels_[i]);
      timed(Span::Kind::node, i, [&] { program_.kernels[i]->run(context); });
    }
  }
}

void Executable::run_nodes(const Sequence& sequence, const StepContext& context) {
  if (!labels_.empty()) return run_named_nodes(sequence, context);
  for (const std::size_t i : sequence.nodes) {
    if (watcher_ != nullptr) watcher_->before(i);
    if (activity_ != nullptr) announce(i, activity_of_[i]);
    timed(Span::Kind::node, i, [&] { program_.kernels[i]->run(context); });
    if (watcher_ != nullptr) watcher_->after(i);
  }
}

Activity Executable::activity_of(std::size_t node) const {
  const Node& of = program_.graph.nodes[node];
  if (dynamic_cast<const Exchange*>(of.op.get()) != nullptr) return Activity::communication;
  if (of.phase == Phase::update) return Activity::update;
  return of.phase == Phase::forward ? Activity::forward : Activity::backward;
}

void Executable::announce_nodes(RankActivity* activity) {
  activity_ = memory_->device().host_memory() ? activity : nullptr;
  activity_of_.resize(activity_ == nullptr ? 0 : program_.graph.nodes.size());
  for (std::size_t node = 0; node < activity_of_.size(); ++node) activity_of_[node] = activity_of(node);
}

void Executable::give(Sequence& sequence, int slot, const StepContext& context) {
  memory_->device().set_step(context);
  const bool record = recording_ && sequence.recordable && !timing_ && !memory_->device().host_memory();
  Repeated& work = sequence.by_slot[static_cast<std::size_t>(slot)];
  if (!record || !work.recording)
    for (const std::size_t node : sequence.nodes) bind(node, slot);
  if (record && work.given == 1) work.recording = memory_->device().record([&] { run_nodes(sequence, context); });
  if (work.given < 2) ++work.given;
  if (record && work.recording) {
    const GpuRange range(*find_gpus().plugin, sequence.name);
    work.recording->replay();
  } else {
    run_nodes(sequence, context);
  }
}

void Executable::submit_inputs(int slot) {
  Input& input = inputs_[static_cast<std::size_t>(slot)];
  if (!std::exchange(input.pending, false)) return;
  input.port->submit();
  input.submitted = true;
}

void Executable::settle(int slot) {
  for (const std::size_t node : sends_.nodes) {
    bind(node, slot);
    announce(node, Activity::communication);
    timed(Span::Kind::settle, node, [&] { program_.kernels[node]->settle(); });
  }
}

// Before a micro-batch takes a slot: what the last one sent from there has arrived, and its own inputs are there.
void Executable::enter(int slot) {
  settle(slot);
  submit_inputs(slot);
  Input& input = inputs_[static_cast<std::size_t>(slot)];
  if (std::exchange(input.submitted, false)) input.port->arrive();
}

Executable::Sequence& Executable::sequence(Work work) {
  switch (work) {
    case Work::forward:
      return forward_;
    case Work::backward:
      return backward_;
    case Work::input_gradient:
      return input_gradient_;
    case Work::weight_gradient:
      return weight_gradient_;
  }
  TRIFOLD_CHECK(false, "no such work");
}

void Executable::run(const StepContext& context) {
  enter(0);
  give(run_, 0, context);
}

void Executable::run(Work work, int slot, const StepContext& context) {
  if (work == Work::forward) enter(slot);
  give(sequence(work), slot, context);
}

void Executable::step(const StepContext& context) {
  TRIFOLD_CHECK((!update_.nodes.empty() || program_.updates_elsewhere) && accumulate_first_.nodes.empty(),
                "a step has an update, and nothing to accumulate");
  enter(0);
  give(step_, 0, context);
}

void Executable::accumulate(bool first, const StepContext& context) {
  TRIFOLD_CHECK(!accumulate_first_.nodes.empty(), "the program was not compiled to accumulate");
  give(first ? accumulate_first_ : accumulate_next_, 0, context);
}

void Executable::update(const StepContext& context) {
  TRIFOLD_CHECK(!update_.nodes.empty() || program_.updates_elsewhere, "the program was compiled without an optimiser");
  give(update_, 0, context);
}

void Executable::average(const StepContext& context) {
  TRIFOLD_CHECK(!average_.nodes.empty(), "the program was compiled to add up gradients, not to average models");
  give(average_, 0, context);
}

Executable::Report Executable::report() const {
  Report report;
  if (program_.graph.report == kNoValue) return report;
  static_assert(sizeof(report) == 2 * sizeof(double));
  memory_->device().download(&report, device_data(program_.graph.report), sizeof(report));
  return report;
}

void Executable::take_report() {
  if (reports_) reports_->take();
}

Executable::Report Executable::collect_reports() {
  Report sum;
  if (!reports_) return sum;
  const std::span<const std::byte> taken = reports_->collect();
  for (std::size_t at = 0; at < taken.size(); at += sizeof(Report)) {
    Report report;
    std::memcpy(&report, taken.data() + at, sizeof(report));
    sum.loss += report.loss;
    sum.correct += report.correct;
  }
  return sum;
}

std::vector<float> Executable::read(ValueId id) const {
  const TensorDesc& desc = program_.descs[static_cast<std::size_t>(id)];
  std::vector<float> laid_out = download_floats(memory_->device(), device_data(id), desc);
  if (desc.layout.plain()) return laid_out;
  std::vector<float> plain(laid_out.size());
  to_plain(laid_out, desc.shape, desc.layout, plain);
  return plain;
}

void Executable::write(ValueId id, std::span<const float> plain) const {
  const TensorDesc& desc = program_.descs[static_cast<std::size_t>(id)];
  const auto elements = static_cast<std::size_t>(desc.elements());
  TRIFOLD_CHECK(plain.size() == elements, "'{}' has {} elements, not {}", program_.graph[id].name, elements,
                plain.size());
  std::vector<float> laid_out(elements);
  to_layout(plain, desc.shape, desc.layout, laid_out);
  memory_->device().upload(device_data(id), laid_out.data(), desc.bytes());
}

}  // namespace trifold
