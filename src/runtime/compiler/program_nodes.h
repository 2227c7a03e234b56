// Nodes and values that are added to a program whose memory is planned.
#pragma once

#include "runtime/compiler/program.h"

namespace trifold {

// Null for a view. `scratch_limit`: bytes that the kernel may use besides its tensors; 0: no limit.
KernelPtr make_kernel_for(const Program& program, const Node& node, const CompileOptions& options,
                          std::size_t scratch_limit = 0);

ValueId add_placed_value(Program& program, Value value, Place place);

// Gives memory outside the arena to a kernel that keeps some from step to step.
void place_lasting_memory(Program& program, std::size_t node);

// Adds a node of the update. It runs after everything else, so the whole arena is free for its scratch.
void add_update_node(Program& program, Node node, const CompileOptions& options);

}  // namespace trifold
