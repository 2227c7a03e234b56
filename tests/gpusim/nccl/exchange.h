// What one call puts on the board, what it takes from there, and whether the ranks asked for the same.
#pragma once

#include "nccl/communicator.h"

namespace gpusim {

// As the current operation: reads what this rank sends and pins it up. False when there is no slot free yet.
bool pin_call(ncclComm& comm, const Call& call, std::uint64_t number);

// As the current operation: writes what this rank receives.
void finish_call(ncclComm& comm, const Call& call, std::uint64_t number);

// False after a report of what differs; each is reported once in a process.
bool signatures_agree(ncclComm& comm, const Entry& entry);

// Calls visit(rank, note) for everything that has to be on the board before the entry can run.
template <class Visit>
void for_each_wanted(const ncclComm& comm, const Entry& entry, const Visit& visit) {
  for (std::size_t i = 0; i < entry.calls.size(); ++i) {
    const auto& call = entry.calls[i];
    Note wanted{.kind = call.kind, .number = entry.numbers[i]};
    if (call.kind == NoteKind::collective) {
      for (int rank = 0; rank < comm.world->ranks; ++rank) visit(rank, wanted);
    } else {
      wanted.kind = call.kind == NoteKind::send ? NoteKind::receive : NoteKind::send;
      wanted.peer = comm.rank;
      visit(call.peer, wanted);
    }
  }
}

enum Function : std::uint32_t { kAllReduce, kBroadcast, kReduce, kAllGather, kReduceScatter, kPointToPoint };

}  // namespace gpusim
