#include "runtime/compiler/program_nodes.h"

#include <algorithm>

#include "core/error.h"

namespace trifold {

KernelPtr make_kernel_for(const Program& program, const Node& node, const CompileOptions& options,
                          std::size_t scratch_limit) {
  if (node.op->is_view()) return nullptr;
  const std::vector<TensorDesc> in = program.descs_of(node.in);
  const std::vector<TensorDesc> out = program.descs_of(node.out);
  return options.backend->make({.op = *node.op,
                                .in = in,
                                .out = out,
                                .threads = options.threads,
                                .strict_math = options.strict_math,
                                .scratch_limit = scratch_limit,
                                .device = options.device,
                                .ranks = options.ranks});
}

ValueId add_placed_value(Program& program, Value value, Place place) {
  program.descs.push_back({value.shape, value.dtype, {}});
  program.memory.places.push_back(place);
  return program.graph.add_value(std::move(value));
}

void place_lasting_memory(Program& program, std::size_t node) {
  const KernelPtr& kernel = program.kernels[node];
  if (!kernel || kernel->lasting_bytes() == 0) return;
  TRIFOLD_CHECK(kernel->scratch_bytes() == 0, "a kernel has scratch or lasting memory, not both");
  std::size_t& used = program.memory.region_bytes[static_cast<int>(Region::messages)];
  program.memory.scratch_offset[node] = used;
  used += kernel->lasting_bytes();
}

void add_update_node(Program& program, Node node, const CompileOptions& options) {
  program.kernels.push_back(make_kernel_for(program, node, options));
  std::size_t& arena = program.memory.region_bytes[static_cast<int>(Region::arena)];
  arena = std::max(arena, program.kernels.back()->scratch_bytes());
  program.memory.scratch_offset.push_back(0);
  place_lasting_memory(program, program.kernels.size() - 1);
  program.graph.nodes.push_back(std::move(node));
}

}  // namespace trifold
