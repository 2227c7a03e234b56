// What a head holds of its workers' pushes: it gathers those of one slice and clock, and says when they go on to the
// servers as one, which is what the rule makes of them, in the order of their shards. Waiting saves bytes and nothing
// else: what goes too early, alone or twice is sorted out by the servers (ServedSlice). Knows nothing of connections.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "parallel/servers/participation.h"
#include "parallel/servers/rules/aggregation.h"
#include "parallel/servers/slices/slice.h"
#include "parallel/servers/wire/mailbox.h"
#include "parallel/servers/wire/message.h"

namespace trifold {

struct GatherOptions {
  std::vector<ServedTensor> tensors = {};
  std::vector<Slice> slices = {};
  Participation participation = {};
  std::shared_ptr<const AggregationRule> rule = {};  // one that combines in parts
  bool half = false;                                 // towards the servers: 16 bits a number
};

// Who is to hear of a request, and by what number.
struct Asker {
  PeerId from = 0;
  std::uint64_t id = 0;

  auto operator<=>(const Asker&) const = default;
};

struct WorkerPush {
  Asker from = {};
  int shard = 0;
  std::int64_t clock = 0;
  double weight = 1;
  double rate = 0;
  bool again = false;  // it was sent before, here or elsewhere
  std::vector<int> slices = {};
  std::vector<Payload> encodings = {};  // of each
};

// To the servers.
struct GatheredPush {
  std::int64_t clock = 0;
  std::vector<int> shards = {};  // at least one
  double weight = 0;
  double rate = 0;
  std::vector<int> slices = {};
  std::vector<Payload> encodings = {};
};

struct PushAnswer {
  Asker to = {};
  bool late = false;

  bool operator==(const PushAnswer&) const = default;
};

class PushGather {
 public:
  explicit PushGather(GatherOptions options);

  // The shards whose workers push here; from now on they are waited for.
  void expect(std::vector<int> shards);
  // An Error: it is no push of these slices, and changes nothing.
  void add(const WorkerPush& push);

  // What servers said of a GatheredPush.
  void acknowledged(std::int64_t clock, int slice, bool late);
  void overlapped(std::int64_t clock, std::span<const int> shards, std::span<const int> slices);
  std::vector<Asker> refused(std::int64_t clock, std::span<const int> shards, std::span<const int> slices);

  std::vector<GatheredPush> take_ready() { return std::exchange(ready_, {}); }
  std::vector<PushAnswer> take_answers() { return std::exchange(answers_, {}); }

 private:
  // A worker's push, until all of its slices are acknowledged.
  struct Debt {
    Asker to;
    std::size_t left = 0;  // slices
    bool late = false;
  };
  struct Held {
    Payload encoding;
    double weight = 1;
    double rate = 0;
    std::shared_ptr<Debt> debt;
    bool sent = false;
  };
  using Group = std::map<int, Held>;  // by shard
  struct OfSlice {
    std::int64_t done = 0;  // the pushes of earlier clocks are safe
    std::map<std::int64_t, Group> clocks;
    std::vector<float> left;  // what codings left unsaid
  };
  // What goes to the servers in one push, by its clock and shards.
  struct Batch {
    GatheredPush push;
    std::vector<std::byte> bytes;  // of combined encodings
    std::vector<std::size_t> ends;
  };
  using Batches = std::map<std::pair<std::int64_t, std::vector<int>>, Batch>;

  OfSlice& of(int slice) { return slices_[static_cast<std::size_t>(slice)]; }
  const ServedTensor& tensor_of(int slice) const;
  bool combines(int slice) const;
  std::span<const float> numbers(int slice, const Payload& encoding, std::vector<float>& room) const;
  bool complete(std::int64_t clock, const Group& group) const;
  void send(std::int64_t clock, int slice, Batches& batches);
  void add_one(std::int64_t clock, int slice, int shard, const Held& held, Batches& batches) const;
  void add_combined(std::int64_t clock, int slice, const std::vector<int>& shards, Batches& batches);
  void close(Batches&& batches);
  void settle(Debt& debt, bool late);

  const GatherOptions options_;
  std::vector<int> expected_;
  std::vector<std::int64_t> newest_;  // by shard: clock that it has pushed here
  std::vector<OfSlice> slices_;
  std::set<std::pair<std::int64_t, int>> waiting_;  // clocks and slices that hold something unsent
  std::vector<GatheredPush> ready_;
  std::vector<PushAnswer> answers_;
};

}  // namespace trifold
