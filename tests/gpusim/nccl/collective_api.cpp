// The operations: arguments are checked here, as strictly as the documentation asks, and become a Call.
#include "engine/device_memory.h"
#include "nccl/data_types.h"
#include "nccl/exchange.h"
#include "nccl/group.h"

namespace gpusim {
namespace {

struct Args {
  Function kind = kAllReduce;
  const char* function = "";
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  int op = -1;
  int root = -1;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};

struct Span {
  const char* name = "";
  const void* data = nullptr;
  std::size_t bytes = 0;
};

ncclResult_t check_buffer(const std::string& function, const ncclComm& comm, const Span& span) {
  if (span.bytes == 0) return ncclSuccess;
  if (!span.data) return refuse(ncclInvalidArgument, function + ": " + span.name + " is null");
  if (!is_device_pointer(span.data)) return ncclSuccess;  // reported when it is read or written
  const int device = DeviceMemory::get().device_of(reinterpret_cast<Address>(span.data));
  if (device == comm.device) return ncclSuccess;
  return refuse(ncclInvalidArgument, function + ": " + span.name + " is on device " + std::to_string(device) +
                                         ", the communicator of rank " + std::to_string(comm.rank) + " on device " +
                                         std::to_string(comm.device));
}

bool overlap(const Span& a, const Span& b) {
  const auto first = reinterpret_cast<Address>(a.data);
  const auto second = reinterpret_cast<Address>(b.data);
  return first < second + b.bytes && second < first + a.bytes;
}

// In place or apart, nothing between: the documented place for each function.
ncclResult_t check_overlap(const Args& args, const Span& send, const Span& receive) {
  if (send.bytes == 0 || receive.bytes == 0 || !overlap(send, receive)) return ncclSuccess;
  const std::size_t part = args.count * bytes_of(args.type) * static_cast<std::size_t>(args.comm->rank);
  const auto* from = static_cast<const std::byte*>(send.data);
  const auto* to = static_cast<const std::byte*>(receive.data);
  const bool in_place = args.kind == kAllGather       ? from == to + part
                        : args.kind == kReduceScatter ? to == from + part
                                                      : from == to;
  if (in_place) return ncclSuccess;
  return refuse(ncclInvalidArgument,
                std::string(args.function) + ": sendbuff and recvbuff overlap, but not as an operation in place");
}

ncclResult_t check_numbers(const Args& args) {
  const std::string function = args.function;
  if (args.type < 0 || args.type >= ncclNumTypes) return refuse(ncclInvalidArgument, function + ": no such data type");
  if (!is_simulated(args.type)) {
    report(Finding::unsupported, function + ": " + name_of(args.type));
    return ncclInvalidArgument;
  }
  if (args.op >= ncclNumOps) {
    return refuse(ncclInvalidArgument, function + ": no such reduction (" + std::to_string(args.op) + ")");
  }
  if (args.root != -1 && (args.root < 0 || args.root >= args.comm->world->ranks)) {
    return refuse(ncclInvalidArgument,
                  function + ": rank " + std::to_string(args.root) + " of " + std::to_string(args.comm->world->ranks));
  }
  return ncclSuccess;
}

ncclResult_t collective(const Args& args) {
  Group& group = Group::of_this_thread();
  if (const auto result = check_comm(args.comm, args.function)) return group.fail(result);
  if (const auto result = check_numbers(args)) return group.fail(result);
  if (args.count == 0) return ncclSuccess;  // as the real library
  const ncclComm& comm = *args.comm;
  const auto ranks = static_cast<std::size_t>(comm.world->ranks);
  const std::size_t bytes = args.count * bytes_of(args.type);
  const bool sends = args.kind != kBroadcast || comm.rank == args.root;
  const bool receives = args.kind != kReduce || comm.rank == args.root;
  const Span send{"sendbuff", sends ? args.send : nullptr,
                  sends ? bytes * (args.kind == kReduceScatter ? ranks : 1) : 0};
  const Span receive{"recvbuff", receives ? args.receive : nullptr,
                     receives ? bytes * (args.kind == kAllGather ? ranks : 1) : 0};
  if (const auto result = check_buffer(args.function, comm, send)) return group.fail(result);
  if (const auto result = check_buffer(args.function, comm, receive)) return group.fail(result);
  if (const auto result = check_overlap(args, send, receive)) return group.fail(result);
  return group.add_call(*args.comm, args.stream,
                        {.function = args.function,
                         .signature = {.function = args.kind,
                                       .type = static_cast<std::uint32_t>(args.type),
                                       .count = args.count,
                                       .op = args.op,
                                       .root = args.root},
                         .send = send.data,
                         .send_bytes = send.bytes,
                         .receive = const_cast<void*>(receive.data),
                         .receive_bytes = receive.bytes});
}

ncclResult_t message(const Args& args, NoteKind kind) {
  Group& group = Group::of_this_thread();
  if (const auto result = check_comm(args.comm, args.function)) return group.fail(result);
  if (const auto result = check_numbers(args)) return group.fail(result);
  const std::size_t bytes = args.count * bytes_of(args.type);
  const bool sends = kind == NoteKind::send;
  const Span span{sends ? "sendbuff" : "recvbuff", sends ? args.send : args.receive, bytes};
  if (const auto result = check_buffer(args.function, *args.comm, span)) return group.fail(result);
  return group.add_call(*args.comm, args.stream,
                        {.function = args.function,
                         .kind = kind,
                         .signature = {.function = kPointToPoint,
                                       .type = static_cast<std::uint32_t>(args.type),
                                       .count = args.count,
                                       .op = -1,
                                       .root = -1},
                         .peer = args.root,
                         .send = sends ? args.send : nullptr,
                         .send_bytes = sends ? bytes : 0,
                         .receive = sends ? nullptr : args.receive,
                         .receive_bytes = sends ? 0 : bytes});
}

}  // namespace
}  // namespace gpusim

using namespace gpusim;

GPUSIM_EXPORT ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                                         ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective({kAllReduce, "ncclAllReduce", send, receive, count, type, op, -1, comm, stream});
}

GPUSIM_EXPORT ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                                         int root, ncclComm_t comm, cudaStream_t stream) {
  return collective({kBroadcast, "ncclBroadcast", send, receive, count, type, -1, root, comm, stream});
}

GPUSIM_EXPORT ncclResult_t ncclBcast(void* buffer, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                     cudaStream_t stream) {
  return collective({kBroadcast, "ncclBcast", buffer, buffer, count, type, -1, root, comm, stream});
}

GPUSIM_EXPORT ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                                      ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective({kReduce, "ncclReduce", send, receive, count, type, op, root, comm, stream});
}

GPUSIM_EXPORT ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                                         ncclComm_t comm, cudaStream_t stream) {
  return collective({kAllGather, "ncclAllGather", send, receive, count, type, -1, -1, comm, stream});
}

GPUSIM_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective({kReduceScatter, "ncclReduceScatter", send, receive, count, type, op, -1, comm, stream});
}

GPUSIM_EXPORT ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                    cudaStream_t stream) {
  return message({kPointToPoint, "ncclSend", send, nullptr, count, type, -1, peer, comm, stream}, NoteKind::send);
}

GPUSIM_EXPORT ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                    cudaStream_t stream) {
  return message({kPointToPoint, "ncclRecv", nullptr, receive, count, type, -1, peer, comm, stream}, NoteKind::receive);
}
