// Workers of one host push and pull through a head, with real servers: the same values as without one for a part of the
// bytes, whoever dies.
#include "parallel/servers/aggregator/host_aggregator.h"

#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "parallel/servers/client/server_client.h"
#include "parallel/servers/server/parameter_server.h"
#include "parallel/servers/wire/keys.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kSliceElements = 2048;
constexpr const char* kListen = "tcp://127.0.0.1:*";

// The last is a statistic that every shard moves on.
std::vector<ServedTensor> some_tensors() {
  return {{.name = "conv.weight", .elements = 20'000},
          {.name = "conv.bias", .elements = 7},
          {.name = "linear.weight", .elements = 10'000},
          {.name = "running_mean", .elements = 16, .trained = false, .keeps = 0.5}};
}

struct ClusterShape {
  int shards = 4;
  std::string rule = "mean";
  bool half = false;
};

ServedLayout layout_of(const ClusterShape& shape) {
  ServedLayout layout{.tensors = some_tensors(), .shards = shape.shards};
  layout.slices = cut_into_slices(layout.tensors, kSliceElements);
  return layout;
}

// SGD, on a thread of its own.
class RealServer {
 public:
  RealServer(const std::string& id, const ClusterShape& shape, std::optional<Credentials> credentials = {})
      : layout_(layout_of(shape)), mailbox_({.listen = kListen, .credentials = credentials}) {
    info_ = {.id = id, .role = "server", .address = mailbox_.address(), .public_key = {}};
    if (credentials) info_.public_key = credentials->own.public_key;
    ConsistencyRules rules;
    rules.participation.shards = shape.shards;
    server_ = std::make_unique<ParameterServer>(ParameterServer::Args{.id = id,
                                                                      .layout = layout_,
                                                                      .rules = rules,
                                                                      .rule = make_aggregation({.rule = shape.rule}),
                                                                      .update = make_optimizer_update({}),
                                                                      .half_answers = shape.half,
                                                                      .mailbox = &mailbox_});
    thread_ = std::thread([this] { run(); });
  }
  ~RealServer() { stop(); }

  const MemberInfo& info() const { return info_; }
  void set_view(const View& view) {
    {
      const std::lock_guard lock(mutex_);
      view_ = view;
    }
    mailbox_.wake();
  }
  void stop() {
    stop_ = true;
    mailbox_.wake();
    if (thread_.joinable()) thread_.join();
  }
  // Once it is stopped.
  const MailboxCounts& traffic() const { return mailbox_.counts(); }
  const ParameterServer::Counts& counts() const { return server_->counts(); }

 private:
  void run() {
    std::int64_t version = 0;
    while (!stop_) {
      View view;
      {
        const std::lock_guard lock(mutex_);
        view = view_;
      }
      if (view.version > version) {
        version = view.version;
        server_->follow(view);
        // What a manager would have answered; where replicas are here it counts for nothing.
        if (view.epoch == 1) server_->handle({.from = 0, .message = first_values()});
      }
      if (const auto received = mailbox_.receive(5ms)) server_->handle(*received);
      server_->tick();
    }
  }
  Message first_values() const {
    std::vector<NumberedState> states;
    for (int slice = 0; slice < static_cast<int>(layout_.slices.size()); ++slice)
      states.emplace_back(slice,
                          SliceState{.values = std::make_shared<std::vector<float>>(layout_.elements_of(slice)),
                                     .version = 1,
                                     .applied = std::vector<std::int64_t>(static_cast<std::size_t>(layout_.shards))});
    Message message{.kind = MessageKind::fetch_answer, .fields = {{"id", 0}, {"epoch", 1}}};
    put_states(message, states, layout_);
    return message;
  }

  const ServedLayout layout_;
  Mailbox mailbox_;
  MemberInfo info_;
  std::unique_ptr<ParameterServer> server_;
  std::mutex mutex_;
  View view_;  // mutex_
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// A worker that owns one shard, and its head.
struct HostWorker {
  HostWorker(int number, const ClusterShape& shape, std::optional<Credentials> credentials = {})
      : shard(number),
        id("worker-" + std::to_string(number)),
        client({.tensors = some_tensors(),
                .worker = id,
                .shards = shape.shards,
                .slice_elements = kSliceElements,
                .codec = {.half = shape.half},
                .mailbox = {.credentials = credentials},
                .pulls_overtake = true,
                .patience = 300ms}),
        head(std::make_unique<HostAggregator>(
            HostAggregatorOptions{.worker = id,
                                  .tensors = some_tensors(),
                                  .slice_elements = kSliceElements,
                                  .participation = {.shards = shape.shards},
                                  .rule = {.rule = shape.rule},
                                  .half = shape.half,
                                  .mailbox = {.listen = kListen, .credentials = credentials},
                                  .patience = 300ms})) {
    info = {.id = id, .role = "worker", .address = head->address(), .public_key = {}};
    if (credentials) info.public_key = credentials->own.public_key;
  }
  void set_view(const View& view) {
    if (head) head->set_view(view);
    client.set_view(view);
  }
  void push(std::int64_t clock, int first_tensor = 0, int end = 4) { push_of(shard, clock, first_tensor, end); }
  // Different of every shard, clock and element.
  void push_of(int which, std::int64_t clock, int first_tensor = 0, int end = 4) {
    const std::vector<ServedTensor> tensors = some_tensors();
    for (int i = first_tensor; i < end; ++i) {
      std::vector<float> values(static_cast<std::size_t>(tensors[static_cast<std::size_t>(i)].elements));
      for (std::size_t k = 0; k < values.size(); ++k)
        values[k] =
            static_cast<float>(1 + which) * 0.25f + static_cast<float>((k * 7 + static_cast<std::size_t>(clock)) % 11);
      client.push({.tensor = i, .shard = which, .clock = clock, .weight = 1.0 + which, .rate = 1}, values);
    }
    client.flush();
  }
  std::vector<std::vector<float>> pull(std::int64_t clock) {
    std::vector<std::vector<float>> values;
    std::vector<PullInto> wanted;
    for (const ServedTensor& tensor : some_tensors()) values.emplace_back(static_cast<std::size_t>(tensor.elements));
    for (std::size_t i = 0; i < values.size(); ++i)
      wanted.push_back({.tensor = static_cast<int>(i), .values = values[i]});
    for (const ServerTicket& ticket : client.pull(shard, clock, wanted)) client.wait(ticket);
    return values;
  }

  const int shard;
  const std::string id;
  ServerClient client;
  std::unique_ptr<HostAggregator> head;
  MemberInfo info;
};

// Servers and workers, as threads of the test.
class TestCluster {
 public:
  void start(int servers, const ClusterShape& shape = {}, const std::optional<Credentials>& credentials = {}) {
    for (int i = 0; i < servers; ++i)
      servers_.push_back(std::make_unique<RealServer>("server-" + std::to_string(i), shape, credentials));
    for (int i = 0; i < shape.shards; ++i) workers_.push_back(std::make_unique<HostWorker>(i, shape, credentials));
    view_ = {.version = 1, .epoch = 1, .settled = true};
    for (const auto& server : servers_) view_.servers.push_back(server->info());
    view_.sources.assign(layout_of(shape).slices.size(), "first values");
    view_.leader = {.id = "manager", .role = "manager", .address = manager_.address(), .public_key = {}};
    if (credentials) view_.leader.public_key = credentials->own.public_key;
    for (const auto& worker : workers_) view_.shard_owners.push_back(worker->id);
  }
  // By host: the numbers of its workers. The first is its head.
  void use_hosts(const std::vector<std::vector<int>>& hosts) {
    view_.version += 1;
    view_.heads.clear();
    for (const std::vector<int>& host : hosts) {
      HeadOfHost& head = view_.heads.emplace_back(HeadOfHost{.member = worker(host.front()).info});
      for (const int number : host) head.workers.push_back(worker(number).id);
    }
  }
  void tell_all() {
    for (const auto& server : servers_) server->set_view(view_);
    for (const auto& worker : workers_) worker->set_view(view_);
  }
  HostWorker& worker(int number) { return *workers_[static_cast<std::size_t>(number)]; }
  RealServer& server(std::size_t number) { return *servers_[number]; }
  View& view() { return view_; }

  // All of a clock, of all workers, one after the other.
  void do_clock(std::int64_t clock) {
    for (const auto& each : workers_) each->push(clock);
    for (const auto& each : workers_) values_ = each->pull(clock + 1);
  }
  void wait_for_pushes() {
    for (const auto& each : workers_) each->client.wait_for_pushes();
  }
  // After so many clocks, what a cluster without heads has.
  void expect_as_without_heads(std::int64_t clocks, const ClusterShape& shape = {}, float tolerance = 1e-5f) {
    TestCluster plain;
    plain.start(1, shape);
    plain.tell_all();
    for (std::int64_t clock = 0; clock < clocks; ++clock) plain.do_clock(clock);
    for (const auto& each : workers_) {
      const auto values = each->pull(clocks);
      for (std::size_t i = 0; i < values.size(); ++i)
        for (std::size_t k = 0; k < values[i].size(); ++k)
          ASSERT_NEAR(values[i][k], plain.values_[i][k], tolerance * std::abs(plain.values_[i][k]))
              << each->id << ", tensor " << i << ", element " << k;
    }
  }
  std::uint64_t bytes_to_servers() {
    std::uint64_t bytes = 0;
    for (const auto& each : servers_) {
      each->stop();
      bytes += each->traffic().received_bytes;
    }
    return bytes;
  }
  std::uint64_t bytes_from_servers() {
    std::uint64_t bytes = 0;
    for (const auto& each : servers_) {
      each->stop();
      bytes += each->traffic().sent_bytes;
    }
    return bytes;
  }

 private:
  Mailbox manager_ = Mailbox({.listen = kListen});  // whom servers ask for the first values, in vain
  View view_;
  std::vector<std::unique_ptr<RealServer>> servers_;
  std::vector<std::unique_ptr<HostWorker>> workers_;
  std::vector<std::vector<float>> values_;
};

class HostAggregatorTest : public ::testing::Test, public TestCluster {};

TEST_F(HostAggregatorTest, TwoHostsOfTwoWorkersTrainAsWithoutHeads) {
  start(2);
  use_hosts({{0, 1}, {2, 3}});
  tell_all();
  for (int clock = 0; clock < 5; ++clock) do_clock(clock);
  wait_for_pushes();
  expect_as_without_heads(5);
}

TEST_F(HostAggregatorTest, WeightsAndSixteenBitsComeOutAsWithoutHeads) {
  const ClusterShape shape{.rule = "weighted_mean", .half = true};
  start(1, shape);
  use_hosts({{1, 0, 2, 3}});
  tell_all();
  for (int clock = 0; clock < 5; ++clock) do_clock(clock);
  expect_as_without_heads(5, shape, 2e-3f);
}

// One server, that has no replica to speak to: all it hears is from workers.
TEST_F(HostAggregatorTest, BytesAreThoseOfOneWorkerAHost) {
  TestCluster plain;
  plain.start(1);
  plain.tell_all();
  start(1);
  use_hosts({{0, 1}, {2, 3}});
  tell_all();
  for (int clock = 0; clock < 10; ++clock) {
    plain.do_clock(clock);
    do_clock(clock);
  }
  wait_for_pushes();
  EXPECT_NEAR(static_cast<double>(plain.bytes_to_servers()) / static_cast<double>(bytes_to_servers()), 2, 0.06);
  EXPECT_NEAR(static_cast<double>(plain.bytes_from_servers()) / static_cast<double>(bytes_from_servers()), 2, 0.06);
  std::uint64_t sent = 0;
  for (const int head : {0, 2}) sent += worker(head).head->traffic().sent;
  EXPECT_NEAR(static_cast<double>(sent), static_cast<double>(bytes_to_servers()), 1000);
  EXPECT_EQ(server(0).counts().repeated, 0);
  EXPECT_LT(worker(1).client.counts().sent_bytes, 1000u);  // its head's bytes are not its own
}

// Its own worker has pushed, and one of the others: what they are owed they send elsewhere.
TEST_F(HostAggregatorTest, AHeadThatDiesIsReplacedByAnother) {
  start(2);
  use_hosts({{0, 1, 2}});
  tell_all();
  do_clock(0);
  worker(1).push(1);
  worker(0).push(1);
  worker(2).push(1, 0, 2);
  worker(0).head.reset();
  use_hosts({{1, 0, 2}});
  tell_all();
  worker(2).push(1, 2, 4);
  worker(3).push(1);
  for (int clock = 2; clock < 4; ++clock) do_clock(clock);
  wait_for_pushes();
  expect_as_without_heads(4);
}

TEST_F(HostAggregatorTest, WithoutAHeadWorkersSpeakToTheServers) {
  start(2);
  use_hosts({{0, 1}, {2, 3}});
  tell_all();
  do_clock(0);
  worker(1).push(1);
  worker(2).push(1);
  worker(0).head.reset();
  worker(2).head.reset();
  use_hosts({});
  tell_all();
  worker(0).push(1);
  worker(3).push(1);
  do_clock(2);
  use_hosts({{1, 0, 2, 3}});  // and back
  tell_all();
  do_clock(3);
  wait_for_pushes();
  expect_as_without_heads(4);
}

// The old head is only given up for lost: it pushes what it has when it wakes up, while its shard is another's and its
// workers push elsewhere.
TEST_F(HostAggregatorTest, AHeadThatWasOnlySlowDoesNoHarm) {
  start(1);
  use_hosts({{0, 1, 2}});
  tell_all();
  do_clock(0);
  worker(0).push(1);
  worker(1).push(1);  // both wait at the head for shard 2
  use_hosts({{2, 1}});
  view().shard_owners[0] = worker(2).id;
  for (const int number : {1, 2, 3}) worker(number).set_view(view());
  worker(2).push_of(0, 1);
  worker(2).push(1);
  worker(0).set_view(view());
  worker(3).push(1);
  for (const int number : {1, 2, 3}) worker(number).pull(2);
  wait_for_pushes();
  expect_as_without_heads(2);
}

// Another worker had the shard, and has pushed it by itself: the head's push of both can neither be added nor left out.
TEST_F(HostAggregatorTest, WhatServersHaveInPartGoesShardByShard) {
  start(1);
  tell_all();
  HostWorker other(1, {});
  other.client.set_view(view());
  other.push(0);
  other.client.status();  // behind the push
  use_hosts({{0, 1}, {2, 3}});
  tell_all();
  do_clock(0);
  wait_for_pushes();
  other.client.wait_for_pushes();
  do_clock(1);
  expect_as_without_heads(2);
  server(0).stop();
  EXPECT_GT(server(0).counts().refused, 0);
}

TEST_F(HostAggregatorTest, WhenAServerDiesTheHeadAsksItsReplica) {
  start(2);
  use_hosts({{0, 1}, {2, 3}});
  tell_all();
  do_clock(0);
  wait_for_pushes();  // replicas have it
  for (const int number : {0, 1, 2}) worker(number).push(1);
  server(0).stop();
  view().version += 1;
  view().epoch = 2;
  view().servers = {server(1).info()};
  view().sources.assign(view().sources.size(), "server-1");
  tell_all();
  worker(3).push(1);
  do_clock(2);
  wait_for_pushes();
  expect_as_without_heads(3);
}

// The head's view is behind: it must not take the worker for one that it does not wait for.
TEST_F(HostAggregatorTest, AWorkerThatKnowsMoreThanItsHeadWaitsForIt) {
  start(1);
  use_hosts({{0, 1}, {2, 3}});
  server(0).set_view(view());
  worker(2).set_view(view());
  worker(3).set_view(view());
  worker(0).client.set_view(view());
  worker(1).set_view(view());
  worker(1).push(0);
  worker(0).push(0);
  worker(0).head->set_view(view());
  worker(2).push(0);
  worker(3).push(0);
  expect_as_without_heads(1);
  server(0).stop();
  const auto slices = static_cast<std::int64_t>(view().sources.size());
  EXPECT_EQ(server(0).counts().pushes, 2 * (slices - 1) + 4);  // the statistic's go one by one
}

TEST_F(HostAggregatorTest, ARefusalReachesTheWorkers) {
  start(1);
  use_hosts({{0, 1}, {2, 3}});
  tell_all();
  worker(0).push(100);  // nobody can be that far
  worker(1).push(100);
  EXPECT_THROW(worker(1).client.wait_for_pushes(), Refused);
  EXPECT_THROW(worker(0).client.wait_for_pushes(), Refused);
}

TEST_F(HostAggregatorTest, WithKeysItProvesItselfByItsOwn) {
  const testing::TemporaryDirectory directory;
  make_keys(directory.path() / "keys", {"a"});
  start(1, {}, load_credentials(directory.path() / "keys", "a"));
  use_hosts({{0, 1}, {3, 2}});
  tell_all();
  do_clock(0);
  expect_as_without_heads(1);
}

}  // namespace
}  // namespace trifold
