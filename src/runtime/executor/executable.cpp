#include "runtime/executor/executable.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/core/error.h"
#include "runtime/core/half.h"

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

}  // namespace

ModelMemory::ModelMemory(Device& device, std::span<const Program* const> programs) : device_(&device) {
  for (int region = 0; region < kRegions; ++region) {
    std::size_t bytes = 0;
    for (const Program* program : programs) bytes = std::max(bytes, program->memory.region_bytes[region]);
    regions_[region] = DeviceMemory(device, bytes);
    // The optimiser's state starts at zero; the arena and the inputs are written before they are read. The host's
    // memory is zero anyway, and is not touched before it is used.
    const bool filled_by_steps =
        region == static_cast<int>(Region::arena) || region == static_cast<int>(Region::inputs);
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

Executable::Executable(Program program, ModelMemory& memory)
    : program_(std::move(program)),
      memory_(&memory),
      inputs_(memory.device().make_input(memory.region(Region::inputs), program_.memory.bytes(Region::inputs))),
      node_seconds_(program_.graph.nodes.size(), 0.0) {
  const std::vector<Node>& nodes = program_.graph.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].phase != Phase::update) update_begin_ = i + 1;
    if (!program_.kernels[i]) continue;
    std::vector<std::byte*> in;
    std::vector<std::byte*> out;
    for (const ValueId id : nodes[i].in) in.push_back(device_data(id));
    for (const ValueId id : nodes[i].out) out.push_back(device_data(id));
    program_.kernels[i]->bind(in, out, memory.region(Region::arena) + program_.memory.scratch_offset[i]);
  }
}

void Executable::run_nodes(std::size_t begin, std::size_t end, const StepContext& context) {
  for (std::size_t i = begin; i < end; ++i) {
    Kernel* kernel = program_.kernels[i].get();
    if (kernel == nullptr) continue;
    if (!timing_) {
      kernel->run(context);
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    kernel->run(context);
    node_seconds_[i] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
}

void Executable::repeat(Repeated& work, std::size_t begin, std::size_t end, const StepContext& context) {
  memory_->device().set_step(context);
  const bool record = recording_ && !timing_ && !memory_->device().host_memory();
  if (record && work.given == 1) work.recording = memory_->device().record([&] { run_nodes(begin, end, context); });
  if (work.given < 2) ++work.given;
  if (record && work.recording)
    work.recording->replay();
  else
    run_nodes(begin, end, context);
}

void Executable::submit_inputs() {
  if (!std::exchange(inputs_pending_, false)) return;
  inputs_->submit();
  inputs_submitted_ = true;
}

void Executable::deliver_inputs() {
  submit_inputs();
  if (std::exchange(inputs_submitted_, false)) inputs_->arrive();
}

void Executable::run(const StepContext& context) {
  deliver_inputs();
  repeat(run_, 0, update_begin_, context);
}

void Executable::step(const StepContext& context) {
  TRIFOLD_CHECK(program_.graph.nodes.size() == update_begin_ + 1, "a step has one update, and nothing to accumulate");
  deliver_inputs();
  repeat(step_, 0, update_begin_ + 1, context);
}

void Executable::accumulate(bool first, const StepContext& context) {
  TRIFOLD_CHECK(program_.graph.nodes.size() == update_begin_ + 3, "the program was not compiled to accumulate");
  const std::size_t node = update_begin_ + (first ? 0 : 1);
  repeat(first ? accumulate_first_ : accumulate_next_, node, node + 1, context);
}

void Executable::update(const StepContext& context) {
  TRIFOLD_CHECK(program_.graph.nodes.size() > update_begin_, "the program was compiled without an optimiser");
  repeat(update_, program_.graph.nodes.size() - 1, program_.graph.nodes.size(), context);
}

Executable::Report Executable::report() const {
  Report report;
  static_assert(sizeof(report) == 2 * sizeof(double));
  memory_->device().download(&report, device_data(program_.graph.report), sizeof(report));
  return report;
}

std::vector<float> Executable::read(ValueId id) const {
  const TensorDesc& desc = program_.descs[static_cast<std::size_t>(id)];
  const auto elements = static_cast<std::size_t>(desc.elements());
  std::vector<float> laid_out = download_floats(memory_->device(), device_data(id), desc);
  if (desc.layout.plain()) return laid_out;
  std::vector<float> plain(elements);
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
