// A batch on its way into a program.
#pragma once

#include "runtime/data/loader.h"
#include "runtime/executor/executable.h"

namespace trifold {

// A batch into a slot of the program's inputs, as far as the program reads them. `offset` and `count`: the samples of
// it that this micro-batch takes; rows beyond the batch's real samples get label -1.
void fill_inputs(Executable& program, const Batch& batch, std::int64_t offset, std::int64_t count, int slot = 0);

}  // namespace trifold
