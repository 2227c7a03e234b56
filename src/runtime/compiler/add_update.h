// The last pass: adds the update to a program that trains. That is the sum over micro-batches, what replicas exchange
// to agree on it (all at once, or bucket by bucket with ZeRO), and the optimiser.
#pragma once

#include "runtime/compiler/program.h"

namespace trifold {

void add_update(Program& program, const CompileOptions& options);

}  // namespace trifold
