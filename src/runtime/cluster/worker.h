// A worker's loop: computes, clock by clock, on the shards of the data that the view gives it. It pulls what a clock
// begins with, pushes what comes of it while it is still computed, and tells the manager. Shards may come and go at any
// time; one that comes begins where the servers say it stands.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parallel/servers/aggregator/host_aggregator.h"
#include "parallel/servers/client/server_client.h"
#include "parallel/servers/participation.h"
#include "parallel/servers/slices/slice.h"
#include "parallel/servers/view.h"
#include "runtime/cluster/node_difference.h"
#include "runtime/train/parameter_exchange.h"

namespace trifold {

// What a worker computes: model_work.h, or a test's.
class ShardWork {
 public:
  struct Result {
    double loss = 0;  // mean over the samples
    double correct = 0;
    std::int64_t samples = 0;
  };

  ShardWork() = default;
  ShardWork(const ShardWork&) = delete;
  ShardWork& operator=(const ShardWork&) = delete;
  virtual ~ShardWork() = default;

  virtual std::vector<ServedTensor> tensors() const = 0;  // in the order in which they are needed, mostly
  virtual double learning_rate(std::int64_t clock) const = 0;
  // Samples behind what a shard pushes, against the other shards'.
  virtual double weight(int shard) const = 0;
  // Whether compute() of this clock will ask for a tensor. If not, the shard goes on with what it has of it.
  virtual bool needs(int /*shard*/, std::int64_t /*clock*/, int /*tensor*/) const { return true; }
  // A function of the arguments and of what `exchange` gives, which is asked for every tensor that is needed, and
  // handed every one whose turn it is. It may be called again with the same arguments, after it has thrown what
  // `exchange` did.
  virtual Result compute(int shard, std::int64_t clock, ParameterExchange& exchange) = 0;
  // Whether it can go on after `exchange` has thrown. If not, all tensors are there before it is called.
  virtual bool can_be_interrupted() const { return true; }
  virtual void give_up(int /*shard*/) {}  // it is another worker's now

  // Whether the model that a shard is left with after this clock is to be compared with the servers' (train.stop).
  virtual bool compares_after(std::int64_t /*clock*/) const { return false; }
  // Of the last clock that a shard has computed, if it was such a one; `common`, by tensor, is what servers made of it.
  virtual std::optional<NodeDifference> compare(int /*shard*/, const std::vector<std::vector<float>>& /*common*/) {
    return std::nullopt;
  }
};

struct WorkerOptions {
  std::string id = {};
  Participation participation = {};
  std::int64_t clocks = 0;        // after so many a shard is done
  bool pulls_every_shard = true;  // false: all shards of a clock begin with the same values, which are pulled once
  const HostAggregator* head = nullptr;  // of this worker: what it sends to servers is reported with the worker's own
};

class Worker {
 public:
  // Both must outlive it.
  Worker(WorkerOptions options, ServerClient& client, ShardWork& work);

  // From any thread but the client's. The client is told, too.
  void set_view(const View& view);

  // Until a view says that all is over, or leave(). Throws what work and client throw.
  void run();
  void leave();  // from any thread; the clock at hand is not finished

 private:
  class ClockExchange;
  struct Interrupted : std::exception {};
  // Where pulled values are until the model takes them. Given up as a whole when a pull is, lest it writes later.
  using Staging = std::vector<std::vector<float>>;

  std::vector<int> owned_shards(const View& view) const;
  std::optional<int> next_shard();
  bool takes_over(const std::vector<int>& owned);
  bool beyond_end(std::int64_t clock);
  std::int64_t end_clock(const View& view) const;
  void do_clock(int shard);
  std::optional<std::int64_t> clock_to_compare() const;
  void compare_models(std::int64_t clock);
  void begin_pull(int shard, std::int64_t clock, bool whole = false);
  bool any_needs(int shard, std::int64_t clock, int tensor) const;
  void wait_for_values(const ServerTicket& ticket);
  void check_shards();
  void forget_pull();
  ClientCounts counts() const;
  void report(int shard, std::int64_t clock, const ShardWork::Result& result, double step_ms);
  void report_difference(int shard, std::int64_t clock, const std::optional<NodeDifference>& difference);

  const WorkerOptions options_;
  ServerClient& client_;
  ShardWork& work_;
  const std::vector<ServedTensor> tensors_;
  std::map<int, std::int64_t> clocks_;      // by shard of ours: the next one
  std::map<int, std::int64_t> uncompared_;  // by shard of ours: the clock after which its model is to be compared
  std::shared_ptr<Staging> staging_;
  std::vector<ServerTicket> tickets_;         // by tensor: of the last pull
  std::vector<bool> pulled_;                  // by tensor: whether it was a part of that
  std::optional<std::int64_t> pulled_clock_;  // that the staging is for
  ClientCounts moved_;                        // when the values of the last clock were here: its pushes come later
  ClientCounts reported_;                     // as of the last report

  std::mutex mutex_;
  std::condition_variable changed_;
  View view_;             // mutex_
  bool leaving_ = false;  // mutex_
};

}  // namespace trifold
