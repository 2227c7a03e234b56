// What a client wants of the servers: a request names slices, and becomes one message to each server that owns some of
// them. Which server that is may change while it waits; what it carries stays as it was encoded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/servers/client/ticket.h"
#include "parallel/servers/server/status_message.h"
#include "parallel/servers/slices/slice.h"
#include "parallel/servers/slices/slice_places.h"
#include "parallel/servers/view.h"
#include "parallel/servers/wire/message.h"

namespace trifold {

// All slices of a tensor with all that servers know of them.
struct FetchedTensor {
  std::vector<float> values;
  std::vector<std::vector<float>> states;  // of its optimiser, as SliceUpdate names them
  std::int64_t updates = -1;               // least over its slices; -1: none came yet
};

struct FetchedModel {
  std::vector<FetchedTensor> tensors;
  std::vector<std::int64_t> applied = {};  // by shard: clocks that are in all slices
};

// An answer of every server. It begins anew when the servers change.
struct StatusRound {
  ServerTicket ticket;
  std::vector<ServerStatus> answers = {};
};

struct SliceWork {
  int slice = 0;
  ServerTicket ticket = {};
  Payload encoded = {};                    // push
  std::span<float> into = {};              // pull
  std::shared_ptr<const void> keeps = {};  // what `into` lies in
};

struct Request;

// Is told of requests that are not of this process alone, in place of tickets: a head. By the thread of the exchange,
// which it must not ask for more meanwhile.
class RequestRelay {
 public:
  virtual ~RequestRelay() = default;
  virtual void pushed(const Request& request, bool late) = 0;  // all slices that the request has
  virtual void pulled(const Request& request, int slice, Payload values, std::int64_t oldest) = 0;
  virtual void refused(const Request& request, const Refused& why) = 0;
};

struct Request {
  MessageKind kind = MessageKind::push;  // push, pull, fetch or status
  int shard = 0;
  std::vector<int> shards = {};  // push: as SlicePush has them
  std::int64_t clock = 0;
  double weight = 1;                 // push
  double rate = 0;                   // push
  std::int64_t cut = -1;             // fetch
  std::vector<SliceWork> work = {};  // not answered yet
  Payload encodings = {};            // push: of all of `work` as one; empty: they have to be put together
  std::shared_ptr<FetchedModel> fetched = {};
  std::shared_ptr<StatusRound> status = {};  // status: there is no work, then
  bool again = false;                        // it was sent before, there or elsewhere
  RequestRelay* relay = nullptr;             // none: tickets
};

// The servers that own the slices of a model.
struct SlicePlacement {
  View view;
  std::vector<int> owner;  // by slice: index into view.servers; empty: nobody serves
};
SlicePlacement placement_of(const View& view, const std::vector<ServedTensor>& tensors,
                            const std::vector<Slice>& slices);

struct AddressedRequest {
  int server = 0;
  Request request;
};
// One request a server, of slices in their order.
std::vector<AddressedRequest> split_by_server(Request request, const SlicePlacement& placement);

Message message_of(const Request& request, std::uint64_t id, std::int64_t epoch);

// Without a copy where they lie one after the other.
Payload join(std::span<const Payload> parts);

// Writes a fetched slice to its place. `info` is its entry in the answer.
void put_fetched(FetchedModel& model, const Slice& slice, const nlohmann::json& info, std::span<const std::byte> bytes);

}  // namespace trifold
