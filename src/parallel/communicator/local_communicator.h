// Ranks that are threads of one process: they read and write each other's memory directly. An operation is cut into
// chunks; whoever waits for it works on chunks, for all ranks at once, so every byte moves once and no thread of its
// own is needed. A rank that does not arrive, or calls something else, ends the wait of the others with an error that
// names it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "parallel/communicator/communicator.h"

namespace trifold {

class WaitBoard;

struct LocalGroupOptions {
  int size = 1;
  std::chrono::milliseconds patience = std::chrono::minutes(5);  // with a rank that does not arrive
  std::string axis = {};                                         // as reports of waits name the group
  std::vector<int> ranks = {};                                   // as messages name the members; empty: 0, 1, ..
  // Of a process of several: there long waits are written, and the watch decides what they mean, not this group. It
  // lives longer than the group. Null: this process is alone.
  WaitBoard* board = nullptr;
};

// One communicator a rank, each for the thread of that rank alone.
std::vector<std::unique_ptr<Communicator>> make_local_group(const LocalGroupOptions& options);

}  // namespace trifold
