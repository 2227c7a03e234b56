// Snapshots of a model's parts on their way to the process that writes them.
#pragma once

#include "parallel/communicator/communicator.h"
#include "runtime/train/model.h"

namespace trifold {

// Returns when the other rank has it. Of a tensor that is in parts only this rank's part travels.
void send_snapshot(const Model::Snapshot& snapshot, Communicator& ranks, int to);
Model::Snapshot receive_snapshot(Communicator& ranks, int from);

}  // namespace trifold
