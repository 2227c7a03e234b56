#include "nccl/exchange.h"

#include <cstring>

#include "nccl/data_types.h"
#include "nccl/operation.h"

namespace gpusim {
namespace {

constexpr const char* kFunctionNames[] = {"ncclAllReduce", "ncclBroadcast", "ncclReduce", "ncclAllGather",
                                          "ncclReduceScatter"};

std::string text_of(const Signature& signature) {
  return gpusim::text_of(Call{.function = kFunctionNames[signature.function], .signature = signature});
}

struct Contributions {
  std::vector<const std::byte*> data;  // by rank
  bool whole = true;                   // none was spoilt
};
Contributions contributions_to(const ncclComm& comm, const Note& wanted) {
  Contributions all;
  for (int rank = 0; rank < comm.world->ranks; ++rank) {
    const auto* slot = comm.world->board.find(rank, wanted);
    all.whole = all.whole && slot && slot->note.spoilt == 0;
    all.data.push_back(slot ? comm.world->board.data(rank, *slot) : nullptr);
  }
  return all;
}

void finish_collective(const ncclComm& comm, const Call& call, std::uint64_t number) {
  const auto all = contributions_to(comm, {.kind = NoteKind::collective, .number = number});
  if (!all.whole || !call.receive) return;
  auto* result = static_cast<std::byte*>(map_for_write(call.receive, call.receive_bytes, "recvbuff"));
  if (!result) return;
  const auto type = static_cast<ncclDataType_t>(call.signature.type);
  const auto op = static_cast<ncclRedOp_t>(call.signature.op);
  const std::size_t count = call.signature.count;
  const std::size_t bytes = count * bytes_of(type);
  switch (call.signature.function) {
    case kAllReduce:
    case kReduce:
      reduce(type, op, all.data, count, result);
      break;
    case kBroadcast:
      std::memcpy(result, all.data[static_cast<std::size_t>(call.signature.root)], bytes);
      break;
    case kAllGather:
      for (std::size_t rank = 0; rank < all.data.size(); ++rank)
        std::memcpy(result + rank * bytes, all.data[rank], bytes);
      break;
    case kReduceScatter: {
      auto parts = all.data;
      for (auto& part : parts) part += static_cast<std::size_t>(comm.rank) * bytes;
      reduce(type, op, parts, count, result);
      break;
    }
    default:
      break;
  }
}

void finish_receive(const ncclComm& comm, const Call& call, std::uint64_t number) {
  const auto* slot = comm.world->board.find(call.peer, {.kind = NoteKind::send, .peer = comm.rank, .number = number});
  if (!slot || slot->note.spoilt != 0 || call.receive_bytes == 0) return;
  void* result = map_for_write(call.receive, call.receive_bytes, "recvbuff");
  if (result) std::memcpy(result, comm.world->board.data(call.peer, *slot), call.receive_bytes);
}

bool collective_agrees(ncclComm& comm, const Call& call, std::uint64_t number) {
  World& world = *comm.world;
  for (int rank = 0; rank < world.ranks; ++rank) {
    const auto* slot = world.board.find(rank, {.kind = NoteKind::collective, .number = number});
    if (!slot || slot->note.signature == call.signature) continue;
    if (world.mismatches.insert(number).second) {
      refuse(ncclInvalidUsage,
             "collective #" + std::to_string(number) + " of a communicator of " + std::to_string(world.ranks) +
                 " ranks: rank " + std::to_string(comm.rank) + " calls " + text_of(call.signature) + ", rank " +
                 std::to_string(rank) + " calls " + text_of(slot->note.signature),
             Finding::collective_mismatch);
    }
    return false;
  }
  return true;
}

bool message_agrees(ncclComm& comm, const Call& call, std::uint64_t number) {
  const bool sends = call.kind == NoteKind::send;
  const auto* slot = comm.world->board.find(
      call.peer, {.kind = sends ? NoteKind::receive : NoteKind::send, .peer = comm.rank, .number = number});
  if (!slot || slot->note.signature == call.signature) return true;
  // The sender reports, so that one process says it once; a receiver does when the sender is not in this process.
  if (sends || !comm.world->is_local(call.peer)) {
    const Call theirs{.function = sends ? "ncclRecv" : "ncclSend",
                      .kind = slot->note.kind,
                      .signature = slot->note.signature,
                      .peer = comm.rank};
    refuse(ncclInvalidUsage,
           "message #" + std::to_string(number) + " between rank " + std::to_string(comm.rank) + " and rank " +
               std::to_string(call.peer) + ": " + gpusim::text_of(call) + " and " + gpusim::text_of(theirs),
           Finding::collective_mismatch);
  }
  return false;
}

}  // namespace

bool pin_call(ncclComm& comm, const Call& call, std::uint64_t number) {
  const auto& board = comm.world->board;
  Note note{.kind = call.kind, .peer = call.peer, .number = number, .signature = call.signature};
  if (board.find(comm.rank, note)) return true;  // of a group that ran out of slots half way
  auto* slot = board.free_slot(comm.rank, note);
  if (!slot) return false;
  if (call.send && call.send_bytes > 0) {
    if (const void* data = map_for_read(call.send, call.send_bytes, "sendbuff")) {
      board.reserve(comm.rank, *slot, call.send_bytes);
      std::memcpy(board.data(comm.rank, *slot), data, call.send_bytes);
      note.bytes = call.send_bytes;
    } else {
      note.spoilt = 1;
    }
  }
  board.pin(*slot, note, call.kind == NoteKind::collective ? comm.world->ranks : 1);
  return true;
}

void finish_call(ncclComm& comm, const Call& call, std::uint64_t number) {
  if (call.kind == NoteKind::collective) finish_collective(comm, call, number);
  if (call.kind == NoteKind::receive) finish_receive(comm, call, number);
}

bool signatures_agree(ncclComm& comm, const Entry& entry) {
  bool agree = true;
  for (std::size_t i = 0; i < entry.calls.size(); ++i) {
    const auto& call = entry.calls[i];
    const bool agrees = call.kind == NoteKind::collective ? collective_agrees(comm, call, entry.numbers[i])
                                                          : message_agrees(comm, call, entry.numbers[i]);
    agree = agree && agrees;
  }
  return agree;
}

}  // namespace gpusim
