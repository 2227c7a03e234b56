#include "nccl/group.h"

#include <algorithm>
#include <mutex>

#include "nccl/operation.h"

namespace gpusim {

Group& Group::of_this_thread() {
  thread_local Group group;
  return group;
}

ncclResult_t Group::end() {
  if (depth_ == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd: no group was started");
  if (--depth_ > 0) return ncclSuccess;
  const auto calls = std::exchange(calls_, {});
  const auto setups = std::exchange(setups_, {});
  if (const auto result = std::exchange(error_, ncclSuccess)) return result;
  if (!calls.empty() && !setups.empty()) {
    return refuse(ncclInvalidUsage, "ncclGroupEnd: a group has either communicators to set up or operations, not both");
  }
  if (const auto result = set_up(setups)) return result;
  return enqueue_all(calls);
}

ncclResult_t Group::set_up(const std::vector<Setup>& setups) {
  ncclResult_t first = ncclSuccess;
  for (const auto& phase : {&Setup::join, &Setup::wait}) {
    for (const auto& setup : setups) {
      const auto result = (setup.*phase)();
      if (first == ncclSuccess) first = result;
    }
    if (first != ncclSuccess) return first;
  }
  return ncclSuccess;
}

ncclResult_t Group::add_call(ncclComm& comm, cudaStream_t stream, const Call& call) {
  if (is_open()) {
    calls_.push_back({&comm, stream, call});
    return ncclSuccess;
  }
  if (call.kind == NoteKind::collective) {
    std::lock_guard lock(simulator_lock());
    World& world = *comm.world;
    // The real library may wait inside of the first call for ranks whose calls this thread has not made yet.
    const auto [first, is_first] = world.callers.emplace(comm.calls, std::this_thread::get_id());
    if (!is_first && first->second == std::this_thread::get_id() && !world.caller_reported) {
      world.caller_reported = true;
      report(Finding::invalid_call, text_of(call) +
                                        ": this thread calls it for several ranks outside of a group "
                                        "(ncclGroupStart), which can deadlock");
    }
    if (world.callers.size() > 64) world.callers.erase(world.callers.begin());
    ++comm.calls;
  }
  return enqueue_calls(comm, stream, {call});
}

ncclResult_t Group::add_setup(Setup setup) {
  if (!is_open()) return set_up({std::move(setup)});
  setups_.push_back(std::move(setup));
  return ncclSuccess;
}

ncclResult_t Group::fail(ncclResult_t result) {
  if (is_open() && error_ == ncclSuccess) error_ = result;
  return result;
}

// Collectives one by one; the sends and receives of a communicator together, so that none waits for another.
ncclResult_t Group::enqueue_all(const std::vector<Collected>& calls) {
  ncclResult_t result = ncclSuccess;
  const auto keep_first = [&](ncclResult_t next) { result = result == ncclSuccess ? next : result; };
  struct Messages {
    ncclComm* comm;
    cudaStream_t stream;
    std::vector<Call> calls;
  };
  std::vector<Messages> messages;
  for (const auto& [comm, stream, call] : calls) {
    const auto* owner = comm;
    const auto same_comm = [&](const Collected& other) { return other.comm == owner; };
    const auto first = std::find_if(calls.begin(), calls.end(), same_comm);
    if (first->stream != stream) {
      report(Finding::unsupported, text_of(call) + ": a group with two streams of one communicator");
      return ncclInvalidUsage;
    }
    if (call.kind == NoteKind::collective) {
      ++comm->calls;
      keep_first(enqueue_calls(*comm, stream, {call}));
      continue;
    }
    auto batch = std::find_if(messages.begin(), messages.end(), [&](const Messages& m) { return m.comm == owner; });
    if (batch == messages.end()) batch = messages.insert(messages.end(), {comm, stream, {}});
    batch->calls.push_back(call);
  }
  for (auto& batch : messages) keep_first(enqueue_calls(*batch.comm, batch.stream, std::move(batch.calls)));
  return result;
}

}  // namespace gpusim

GPUSIM_EXPORT ncclResult_t ncclGroupStart() {
  gpusim::Group::of_this_thread().start();
  return ncclSuccess;
}

GPUSIM_EXPORT ncclResult_t ncclGroupEnd() {
  return gpusim::Group::of_this_thread().end();
}
