#include "runtime/executor/executable.h"

#include <algorithm>
#include <chrono>

#include "runtime/core/error.h"

namespace trifold {

ModelMemory::ModelMemory(std::span<const Program* const> programs) {
  for (int region = 0; region < kRegions; ++region) {
    std::size_t bytes = 0;
    for (const Program* program : programs) bytes = std::max(bytes, program->memory.region_bytes[region]);
    regions_[region] = AlignedMemory(bytes);
  }
}

std::byte* ModelMemory::at(const Place& place) const {
  TRIFOLD_CHECK(place.region != Region::none, "the value is never in memory");
  return regions_[static_cast<int>(place.region)].data() + place.offset;
}

std::size_t ModelMemory::total_bytes() const {
  std::size_t bytes = 0;
  for (const AlignedMemory& region : regions_) bytes += region.bytes();
  return bytes;
}

Executable::Executable(Program program, ModelMemory& memory)
    : program_(std::move(program)), memory_(&memory), node_seconds_(program_.graph.nodes.size(), 0.0) {
  const std::vector<Node>& nodes = program_.graph.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].phase != Phase::update) update_begin_ = i + 1;
    if (!program_.kernels[i]) continue;
    std::vector<std::byte*> in;
    std::vector<std::byte*> out;
    for (const ValueId id : nodes[i].in) in.push_back(data<std::byte>(id));
    for (const ValueId id : nodes[i].out) out.push_back(data<std::byte>(id));
    program_.kernels[i]->bind(in, out, memory.arena() + program_.memory.scratch_offset[i]);
  }
}

void Executable::run_node(std::size_t index, const StepContext& context) {
  Kernel* kernel = program_.kernels[index].get();
  if (kernel == nullptr) return;
  if (!timing_) {
    kernel->run(context);
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  kernel->run(context);
  node_seconds_[index] += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void Executable::run(const StepContext& context) {
  for (std::size_t i = 0; i < update_begin_; ++i) run_node(i, context);
}

void Executable::accumulate(bool first, const StepContext& context) {
  TRIFOLD_CHECK(program_.graph.nodes.size() == update_begin_ + 3, "the program was not compiled to accumulate");
  run_node(update_begin_ + (first ? 0 : 1), context);
}

void Executable::update(const StepContext& context) {
  TRIFOLD_CHECK(program_.graph.nodes.size() > update_begin_, "the program was compiled without an optimiser");
  run_node(program_.graph.nodes.size() - 1, context);
}

std::vector<float> Executable::read(ValueId id) const {
  const TensorDesc& desc = program_.descs[static_cast<std::size_t>(id)];
  const auto elements = static_cast<std::size_t>(desc.elements());
  std::vector<float> plain(elements);
  to_plain({data<float>(id), elements}, desc.shape, desc.layout, plain);
  return plain;
}

void Executable::write(ValueId id, std::span<const float> plain) const {
  const TensorDesc& desc = program_.descs[static_cast<std::size_t>(id)];
  const auto elements = static_cast<std::size_t>(desc.elements());
  TRIFOLD_CHECK(plain.size() == elements, "'{}' has {} elements, not {}", program_.graph[id].name, elements,
                plain.size());
  to_layout(plain, desc.shape, desc.layout, {data<float>(id), elements});
}

}  // namespace trifold
