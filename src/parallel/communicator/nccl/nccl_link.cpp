#include "parallel/communicator/nccl/nccl_link.h"

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "core/error.h"

namespace trifold::cuda {
namespace {

[[noreturn]] void fail_nccl(ncclResult_t result, const char* what) {
  fail_runtime("NCCL: {} in {}: {}", ncclGetErrorString(result), what, ncclGetLastError(nullptr));
}

}  // namespace

void prepare_nccl() {
  // NCCL adds in an order that follows from the machine and the size, the same in every run, but not where the switch
  // adds (NVLS).
  static_cast<void>(::setenv("NCCL_NVLS_ENABLE", "0", 0));
}

ncclUniqueId make_nccl_id() {
  ncclUniqueId id = {};
  if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) fail_nccl(result, "ncclGetUniqueId");
  return id;
}

NcclLink::~NcclLink() {
  abort("the link is closed");
}

void NcclLink::check_open() const {
  if (aborted_) fail_runtime("{}", reason_);
}

// The lock is free between two looks, so that abort() need not wait.
void NcclLink::wait_while_in_progress(const char* what, ncclResult_t result) {
  while (result == ncclInProgress) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    const std::lock_guard lock(mutex_);
    check_open();
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result); asked != ncclSuccess) fail_nccl(asked, what);
  }
  if (result != ncclSuccess) fail_nccl(result, what);
}

template <class Call>
void NcclLink::give(const char* what, Call call) {
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    check_open();
    result = call(comm_);
  }
  wait_while_in_progress(what, result);
}

void NcclLink::connect(const ncclUniqueId& id, int rank, int ranks) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  give("ncclCommInitRankConfig", [&](ncclComm_t) { return ncclCommInitRankConfig(&comm_, ranks, id, rank, &config); });
}

void NcclLink::all_reduce(std::span<float> data, cudaStream_t stream) {
  give("ncclAllReduce", [&](ncclComm_t comm) {
    return ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, stream);
  });
}

void NcclLink::all_gather(std::span<const std::byte> part, std::byte* all, cudaStream_t stream) {
  give("ncclAllGather",
       [&](ncclComm_t comm) { return ncclAllGather(part.data(), all, part.size(), ncclUint8, comm, stream); });
}

void NcclLink::reduce_scatter(const float* all, std::span<float> part, cudaStream_t stream) {
  give("ncclReduceScatter", [&](ncclComm_t comm) {
    return ncclReduceScatter(all, part.data(), part.size(), ncclFloat32, ncclSum, comm, stream);
  });
}

void NcclLink::send(std::span<const std::byte> data, int to, cudaStream_t stream) {
  give("ncclSend", [&](ncclComm_t comm) { return ncclSend(data.data(), data.size(), ncclUint8, to, comm, stream); });
}

void NcclLink::receive(std::span<std::byte> data, int from, cudaStream_t stream) {
  give("ncclRecv", [&](ncclComm_t comm) { return ncclRecv(data.data(), data.size(), ncclUint8, from, comm, stream); });
}

void NcclLink::exchange(std::span<const Outgoing> sends, std::span<const Incoming> receives, cudaStream_t stream) {
  if (sends.empty() && receives.empty()) return;
  give("ncclGroupEnd", [&](ncclComm_t comm) {
    // A group that was begun is ended, whatever becomes of its calls.
    ncclResult_t failed = ncclGroupStart();
    if (failed != ncclSuccess) return failed;
    const auto add = [&](ncclResult_t result) {
      if (failed == ncclSuccess && result != ncclInProgress) failed = result;
    };
    for (const Outgoing& each : sends)
      add(ncclSend(each.data.data(), each.data.size(), ncclUint8, each.to, comm, stream));
    for (const Incoming& each : receives)
      add(ncclRecv(each.data.data(), each.data.size(), ncclUint8, each.from, comm, stream));
    const ncclResult_t ended = ncclGroupEnd();
    return failed != ncclSuccess ? failed : ended;
  });
}

void NcclLink::leave() {
  if (comm_ == nullptr) return;
  // What a communicator that does not block has under way ends here; destroying it then takes no time.
  give("ncclCommFinalize", [](ncclComm_t comm) { return ncclCommFinalize(comm); });
  const std::lock_guard lock(mutex_);
  if (const ncclResult_t result = ncclCommDestroy(std::exchange(comm_, nullptr)); result != ncclSuccess)
    fail_nccl(result, "ncclCommDestroy");
}

void NcclLink::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return;
  aborted_ = true;
  reason_ = reason;
  if (comm_ != nullptr) static_cast<void>(ncclCommAbort(comm_));
  comm_ = nullptr;
}

}  // namespace trifold::cuda
