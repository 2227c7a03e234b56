#include "nccl/operation.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "engine/device_faults.h"
#include "engine/process_exit.h"
#include "engine/scheduler.h"
#include "nccl/data_types.h"
#include "nccl/deadlock.h"
#include "nccl/exchange.h"

namespace gpusim {
namespace {

// Numbers the calls in the order in which they enter streams, and remembers them.
void enter(ncclComm& comm, const std::vector<Call>& calls, OperationId id) {
  Entry entry{.id = id, .calls = calls, .numbers = {}};
  for (const auto& call : calls) {
    if (call.kind == NoteKind::collective) {
      entry.numbers.push_back(comm.next_collective++);
    } else {
      auto& next = call.kind == NoteKind::send ? comm.next_send : comm.next_receive;
      entry.numbers.push_back(next[call.peer]++);
    }
  }
  const Operation& now = *operation(id);
  if (now.device != comm.device) {
    refuse(ncclInvalidArgument, now.what + ": its stream belongs to device " + std::to_string(now.device) +
                                    ", the communicator to device " + std::to_string(comm.device));
  }
  const Operation* last = operation(comm.last);
  if (last && !happens_before(*last, now)) {
    report(Finding::stream_race, "'" + now.what + "' (stream " + std::to_string(now.stream) +
                                     ") is not ordered after '" + last->what + "' (stream " +
                                     std::to_string(last->stream) +
                                     ") of the same communicator: the ranks may run them in different orders");
  }
  comm.last = id;
  comm.entries.emplace(id, std::move(entry));
}

// Pins the entry's data as its own operation would.
bool pin(ncclComm& comm, Entry& entry) {
  if (entry.pinned) return true;
  for (std::size_t i = 0; i < entry.calls.size(); ++i) {
    if (!pin_call(comm, entry.calls[i], entry.numbers[i])) return false;
  }
  entry.pinned = true;
  return true;
}

// The entry of another rank of this process that this one waits for; null when it has not been enqueued.
Entry* counterpart(ncclComm& peer, const Note& wanted) {
  for (auto& [id, entry] : peer.entries) {
    for (std::size_t i = 0; i < entry.calls.size(); ++i) {
      const auto& call = entry.calls[i];
      const bool same_peer = wanted.kind == NoteKind::collective || call.peer == wanted.peer;
      if (call.kind == wanted.kind && entry.numbers[i] == wanted.number && same_peer) return &entry;
    }
  }
  return nullptr;
}

// Brings a rank of this process to where it has pinned its data, if its stream can get there.
void drive(ncclComm& peer, const Note& wanted) {
  Entry* entry = counterpart(peer, wanted);
  if (!entry || entry->pinned || entry->busy || entry->failed) return;
  const OperationId id = entry->id;
  if (!run_predecessors(id)) return;
  const auto found = peer.entries.find(id);  // the predecessors may have taken it along
  if (found == peer.entries.end()) return;
  as_operation(id, [&] { pin(peer, found->second); });
}

// Drives the others of this process, then returns the ranks whose data is not there yet.
std::vector<int> missing_ranks(ncclComm& comm, const Entry& entry) {
  World& world = *comm.world;
  std::vector<int> missing;
  for_each_wanted(comm, entry, [&](int rank, const Note& wanted) {
    if (world.board.find(rank, wanted)) return;
    if (world.is_local(rank)) drive(*world.local[static_cast<std::size_t>(rank)], wanted);
    if (!world.board.find(rank, wanted)) missing.push_back(rank);
  });
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return missing;
}

bool is_ready(ncclComm& comm) {
  const auto found = comm.entries.find(current_operation()->id);
  if (found == comm.entries.end()) return true;
  Entry& entry = found->second;
  if (entry.failed || comm.aborted) return true;
  if (entry.busy) return false;
  entry.busy = true;
  bool ready = false;
  if (pin(comm, entry)) {
    auto missing = missing_ranks(comm, entry);
    // A rank may bring its data and leave between two looks: who is gone is looked for once more.
    auto departed = departed_ranks(*comm.world, missing);
    if (!departed.empty()) {
      missing = missing_ranks(comm, entry);
      std::erase_if(departed,
                    [&](int rank) { return std::find(missing.begin(), missing.end(), rank) == missing.end(); });
    }
    if (missing.empty()) {
      entry.failed = !signatures_agree(comm, entry);
      ready = true;
    } else if (is_deadlocked(comm, entry, missing, departed)) {
      entry.failed = true;
      comm.async_error = ncclRemoteError;
      mark_faulted(comm.device, Finding::deadlock);
      ready = true;
    }
  }
  entry.busy = false;
  return ready;
}

void run(ncclComm& comm) {
  const auto found = comm.entries.find(current_operation()->id);
  if (found == comm.entries.end()) return;
  const Entry entry = std::move(found->second);
  comm.entries.erase(found);
  if (!comm.aborted && !entry.failed) {
    for (std::size_t i = 0; i < entry.calls.size(); ++i) finish_call(comm, entry.calls[i], entry.numbers[i]);
  } else if (entry.failed) {
    comm.async_error = comm.async_error == ncclSuccess ? ncclInvalidUsage : comm.async_error;
  }
  for_each_wanted(comm, entry, [&](int rank, const Note& wanted) { comm.world->board.done_reading(rank, wanted); });
}

// One pass of the watcher: whatever another process's rank has pinned up and waits for.
void serve_others(World& world) {
  std::lock_guard lock(simulator_lock());
  for (auto* comm : world.local) {
    if (!comm || comm->aborted) continue;
    std::vector<OperationId> waited_for;
    for (const auto& [id, entry] : comm->entries) {
      if (entry.pinned || entry.failed) continue;
      bool waited = false;
      for_each_wanted(*comm, entry, [&](int rank, const Note& wanted) {
        waited = waited || (!world.is_local(rank) && world.board.find(rank, wanted));
      });
      if (waited) waited_for.push_back(id);
    }
    for (const OperationId id : waited_for) {
      if (!run_predecessors(id)) break;
      const auto found = comm->entries.find(id);
      if (found != comm->entries.end()) as_operation(id, [&] { pin(*comm, found->second); });
    }
  }
}

bool is_finished(const World& world) {
  std::lock_guard lock(simulator_lock());
  return std::all_of(world.local.begin(), world.local.end(),
                     [](const ncclComm* comm) { return !comm || (!comm->alive && comm->entries.empty()); });
}

double kept_bytes(const std::vector<Call>& calls) {
  double bytes = 0;
  for (const auto& call : calls) bytes += static_cast<double>(std::max(call.send_bytes, call.receive_bytes));
  return bytes;
}

}  // namespace

std::string text_of(const Call& call) {
  const auto& signature = call.signature;
  std::string text = std::string(call.function) + "(count " + std::to_string(signature.count) + ", " +
                     name_of(static_cast<ncclDataType_t>(signature.type));
  if (signature.op >= 0) text += std::string(", ") + name_of(static_cast<ncclRedOp_t>(signature.op));
  if (signature.root >= 0) text += ", root " + std::to_string(signature.root);
  if (call.peer >= 0)
    text += std::string(call.kind == NoteKind::send ? ", to " : ", from ") + std::to_string(call.peer);
  return text + ")";
}

ncclResult_t enqueue_calls(ncclComm& comm, cudaStream_t stream, std::vector<Call> calls) {
  constexpr double kBytesPerNs = 12;  // of a link between two devices
  std::string what = text_of(calls.front());
  if (calls.size() > 1) what += " and " + std::to_string(calls.size() - 1) + " more";
  what += " of rank " + std::to_string(comm.rank);
  const auto cost_ns = static_cast<std::uint64_t>(8000 + kept_bytes(calls) / kBytesPerNs);
  ncclComm* const owner = &comm;
  const int reports_before = report_count();
  const OperationId id = enqueue(stream, {.what = what,
                                          .run = [owner] { run(*owner); },
                                          .ready = [owner] { return is_ready(*owner); },
                                          .enqueued = [owner, held = comm.held, calls = std::move(calls)](
                                                          OperationId entered) { enter(*owner, calls, entered); },
                                          .cost_ns = cost_ns});
  if (id == 0 && report_count() != reports_before) return ncclUnhandledCudaError;
  if (id != 0 && operation(id)->device != comm.device) return ncclInvalidArgument;
  return ncclSuccess;
}

void start_watcher(World& world) {
  std::lock_guard lock(simulator_lock());
  bool all_local = true;
  for (int rank = 0; rank < world.ranks; ++rank) all_local = all_local && world.is_local(rank);
  if (all_local || world.has_watcher) return;
  world.has_watcher = true;
  // Never joined: the world it serves is never freed, and it holds no lock when the process ends.
  std::thread([&world] {
    std::uint32_t seen = 0;
    while (!is_finished(world)) {
      const std::uint32_t now = world.board.wait_for_change(seen, std::chrono::milliseconds(200));
      serve_others(world);
      if (now != seen) wake_waiters();
      seen = now;
    }
  }).detach();
}

void watch_process_end(ncclComm& comm) {
  at_process_end([&comm] {
    std::lock_guard lock(simulator_lock());
    // A communicator that was destroyed has nothing left, unless its device was lost, which was reported then.
    if (!comm.alive || comm.aborted || fault_of(comm.device)) return;
    for (const auto& [id, entry] : comm.entries) {
      if (entry.failed) continue;
      report(Finding::deadlock, "the process ends, and '" + operation(id)->what + "' has not run");
    }
  });
}

void flush(ncclComm& comm) {
  for (;;) {
    const std::uint32_t seen = comm.world->board.header().changes.load();
    {
      std::lock_guard lock(simulator_lock());
      std::vector<OperationId> ids;
      for (const auto& [id, entry] : comm.entries) ids.push_back(id);
      for (const OperationId id : ids) run_all(operation(id)->clock);
      if (comm.entries.empty() || fault_of(comm.device)) return;
    }
    comm.world->board.wait_for_change(seen, std::chrono::milliseconds(20));
  }
}

}  // namespace gpusim
