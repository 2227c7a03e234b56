// Making, asking and ending communicators.
#include <cstring>
#include <mutex>

#include "engine/device_faults.h"
#include "nccl/communicator.h"
#include "nccl/group.h"
#include "nccl/operation.h"

namespace gpusim {
namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;

ncclResult_t check_config(const char* function, const ncclConfig_t* config) {
  if (!config) return ncclSuccess;
  if (config->magic != kConfigMagic) {
    return refuse(ncclInvalidArgument,
                  std::string(function) + ": the config was not made with NCCL_CONFIG_INITIALIZER");
  }
  if (config->size > sizeof(ncclConfig_t)) {
    return refuse(ncclInvalidArgument, std::string(function) + ": the config is of a newer NCCL");
  }
  return ncclSuccess;
}

ncclResult_t init_rank(const char* function, ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank,
                       const ncclConfig_t* config) {
  const std::string name = function;
  Group& group = Group::of_this_thread();
  if (!comm) return group.fail(refuse(ncclInvalidArgument, name + ": the result pointer is null"));
  *comm = nullptr;
  if (const auto result = check_config(function, config)) return group.fail(result);
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return group.fail(
        refuse(ncclInvalidArgument, name + ": rank " + std::to_string(rank) + " of " + std::to_string(ranks)));
  }
  if (ranks > kMaxRanks) {
    report(Finding::unsupported, name + ": " + std::to_string(ranks) + " ranks");
    return group.fail(ncclInvalidArgument);
  }
  const std::string board(id.internal, strnlen(id.internal, sizeof id.internal));
  if (!board.starts_with("gpusim-nccl-")) {
    return group.fail(refuse(ncclInvalidArgument, name + ": the unique id was not made by ncclGetUniqueId"));
  }
  ncclResult_t error = ncclSuccess;
  auto* joined = join_world({.name = board, .ranks = ranks, .rank = rank}, error);
  if (!joined) return group.fail(error);
  *comm = joined;
  if (config && config->blocking == 0 && !group.is_open()) {
    joined->joining = true;
    joined->joining_since = std::chrono::steady_clock::now();
    return ncclInProgress;
  }
  return group.add_setup({.wait = [joined] { return wait_for_all(*joined); }});
}

ncclResult_t leave(ncclComm* comm, const char* function, Presence how) {
  const bool aborts = how == Presence::aborted;  // also what is still being made
  if (const auto result = aborts ? check_alive(comm, function) : check_comm(comm, function)) return result;
  if (Group::of_this_thread().is_open()) {
    return refuse(ncclInvalidUsage, std::string(function) + " inside of a group");
  }
  if (aborts) {
    std::lock_guard lock(simulator_lock());
    comm->aborted = true;
    wake_waiters();
  } else {
    flush(*comm);
    if (comm->held.use_count() > 1 && !fault_of(comm->device)) {
      return refuse(ncclInvalidUsage, std::string(function) +
                                          ": a CUDA graph still has an operation of the communicator; the real library "
                                          "waits until the graph is destroyed");
    }
  }
  std::lock_guard lock(simulator_lock());
  comm->alive = false;
  comm->world->board.rank(comm->rank).presence.store(how);
  comm->world->board.announce();
  return ncclSuccess;
}

template <class Value>
ncclResult_t get(const ncclComm* comm, const char* function, Value* out, Value value_if_alive) {
  if (const auto result = check_comm(comm, function)) return result;
  if (!out) return refuse(ncclInvalidArgument, std::string(function) + ": the result pointer is null");
  *out = value_if_alive;
  return ncclSuccess;
}

}  // namespace
}  // namespace gpusim

using namespace gpusim;

GPUSIM_EXPORT ncclResult_t ncclGetVersion(int* version) {
  if (!version) return refuse(ncclInvalidArgument, "ncclGetVersion: the result pointer is null");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

GPUSIM_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (!id) return refuse(ncclInvalidArgument, "ncclGetUniqueId: the result pointer is null");
  std::memset(id, 0, sizeof *id);
  const std::string name = unique_name();
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

GPUSIM_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return init_rank("ncclCommInitRank", comm, ranks, id, rank, nullptr);
}

// A communicator that does not block is never complete at once, so that a program that does not ask is seen. Its
// operations are given to streams at once, which NCCL allows.
GPUSIM_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                                  ncclConfig_t* config) {
  return init_rank("ncclCommInitRankConfig", comm, ranks, id, rank, config);
}

GPUSIM_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  const std::string function = "ncclCommInitAll";
  if (!comms || count < 1) return refuse(ncclInvalidArgument, function + ": no communicators to make");
  if (count > kMaxRanks) {
    report(Finding::unsupported, function + ": " + std::to_string(count) + " ranks");
    return ncclInvalidArgument;
  }
  const std::string board = unique_name();
  for (int rank = 0; rank < count; ++rank) {
    const int device = devices ? devices[rank] : rank;
    if (device < 0 || device >= device_count()) {
      return refuse(ncclInvalidArgument, function + ": there is no device " + std::to_string(device));
    }
    ncclResult_t error = ncclSuccess;
    auto* comm = join_world({.name = board, .ranks = count, .rank = rank, .device = device}, error);
    if (!comm) return error;
    comms[rank] = comm;
  }
  for (int rank = 0; rank < count; ++rank) {
    if (const auto result = wait_for_all(*comms[rank])) return result;
  }
  return ncclSuccess;
}

GPUSIM_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  const char* function = "ncclCommSplit";
  Group& group = Group::of_this_thread();
  if (const auto result = check_comm(comm, function)) return group.fail(result);
  if (!made) return group.fail(refuse(ncclInvalidArgument, std::string(function) + ": the result pointer is null"));
  if (const auto result = check_config(function, config)) return group.fail(result);
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    return group.fail(refuse(ncclInvalidArgument, std::string(function) + ": color " + std::to_string(color)));
  }
  const SplitArgs args{.color = color, .key = key};
  post_split(*comm, args);
  return group.add_setup({.join = [comm, args, made] { return join_split(*comm, args, made); },
                          .wait = [made] { return *made ? wait_for_all(**made) : ncclSuccess; }});
}

GPUSIM_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (const auto result = check_comm(comm, "ncclCommFinalize")) return result;
  flush(*comm);
  return ncclSuccess;
}

GPUSIM_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return leave(comm, "ncclCommDestroy", Presence::left);
}
GPUSIM_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return leave(comm, "ncclCommAbort", Presence::aborted);
}

GPUSIM_EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return get(comm, "ncclCommCount", count, comm && comm->alive ? comm->world->ranks : 0);
}
GPUSIM_EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return get(comm, "ncclCommCuDevice", device, comm && comm->alive ? comm->device : 0);
}
GPUSIM_EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return get(comm, "ncclCommUserRank", rank, comm && comm->alive ? comm->rank : 0);
}
GPUSIM_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm && comm->alive && comm->joining && error) {
    comm->async_error = ask_for_all(*comm);
    *error = comm->async_error;
    return ncclSuccess;
  }
  return get(comm, "ncclCommGetAsyncError", error, comm && comm->alive ? comm->async_error : ncclSuccess);
}

GPUSIM_EXPORT const char* ncclGetLastError(ncclComm_t) {
  return last_error();
}

GPUSIM_EXPORT const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}
