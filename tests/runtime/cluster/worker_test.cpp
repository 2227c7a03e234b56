#include "runtime/cluster/worker.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "support/fake_server.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;
using test::FakeModel;
using test::FakeServer;

constexpr double kToyRate = 0.25;
constexpr int kSamples = 8;

// Two tensors that every shard pulls towards its own number: the loss is half the square of the distance.
class ToyWork final : public ShardWork {
 public:
  std::function<void(int shard, std::int64_t clock)> before_step = [](int, std::int64_t) {};

  static std::vector<ServedTensor> toy_tensors() {
    return {{.name = "weight", .elements = 40}, {.name = "bias", .elements = 3}};
  }
  static float target(int shard) { return static_cast<float>(10 * shard); }

  std::vector<ServedTensor> tensors() const override { return toy_tensors(); }
  double learning_rate(std::int64_t) const override { return kToyRate; }
  double weight(int) const override { return kSamples; }
  Result compute(int shard, std::int64_t clock, ParameterExchange& exchange) override {
    std::vector<std::vector<float>> gradients;
    for (std::size_t i = 0; i < toy_tensors().size(); ++i) {
      std::vector<float>& values = gradients.emplace_back(static_cast<std::size_t>(toy_tensors()[i].elements));
      exchange.need_parameter(static_cast<int>(i), values);
      for (float& value : values) value -= target(shard);
    }
    before_step(shard, clock);
    for (std::size_t i = gradients.size(); i-- > 0;) exchange.gradient_ready(static_cast<int>(i), gradients[i]);
    steps += 1;
    return {.loss = gradients[0][0], .correct = 1, .samples = kSamples};
  }
  // Every fifth clock: how far the servers have come.
  bool compares_after(std::int64_t clock) const override { return compares && clock % 5 == 4; }
  std::optional<NodeDifference> compare(int, const std::vector<std::vector<float>>& common) override {
    return NodeDifference{.distance = common[1][2], .kl = 1};
  }
  bool compares = false;
  std::atomic<int> steps = 0;
};

// What the fake servers have after so many clocks of all shards.
float value_after(int shards, std::int64_t clocks, float first) {
  float value = first;
  for (std::int64_t clock = 0; clock < clocks; ++clock) {
    const float now = value;
    for (int shard = 0; shard < shards; ++shard)
      value -= static_cast<float>(kToyRate) * (now - ToyWork::target(shard)) / static_cast<float>(shards);
  }
  return value;
}

// A worker with its client and its thread.
struct RunningWorker {
  RunningWorker(const FakeModel& model, const std::string& id, std::int64_t clocks, bool pulls_every_shard = true)
      : client({.tensors = model.tensors, .shards = model.shards, .slice_elements = 16, .patience = 100ms}),
        worker({.id = id,
                .participation = {.shards = model.shards},
                .clocks = clocks,
                .pulls_every_shard = pulls_every_shard},
               client, work) {}
  void start() {
    done = std::async(std::launch::async, [this] { worker.run(); });
  }

  ToyWork work;
  ServerClient client;
  Worker worker;
  std::future<void> done;
};

class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest() : manager_({.listen = "tcp://127.0.0.1:*"}) {}

  void use(int servers, int shards) {
    model_ = std::make_unique<FakeModel>(ToyWork::toy_tensors(), shards, 16);
    for (int i = 0; i < servers; ++i)
      servers_.push_back(std::make_unique<FakeServer>(*model_, "server-" + std::to_string(i)));
    std::vector<FakeServer*> all;
    for (const auto& server : servers_) all.push_back(server.get());
    view_ = test::view_of(1, all);
    view_.leader = {.id = "manager", .role = "manager", .address = manager_.address(), .public_key = {}};
    for (const auto& server : servers_) server->set_view(view_);
  }
  const View& give(const std::vector<std::string>& owners) {
    view_.version += 1;
    view_.shard_owners = owners;
    return view_;
  }
  const View& stop_at(std::int64_t clock) {
    view_.version += 1;
    view_.stop_clock = clock;
    return view_;
  }
  const View& over() {
    view_.version += 1;
    view_.over = true;
    return view_;
  }
  std::int64_t least_round() {
    const std::lock_guard lock(model_->mutex);
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const auto& held : model_->held) least = std::min(least, held.round);
    return least;
  }
  void wait_for_round(std::int64_t round) {
    while (least_round() < round) std::this_thread::sleep_for(1ms);
  }
  void expect_values(std::int64_t clocks) {
    for (const int i : {0, 15, 16, 39})
      EXPECT_FLOAT_EQ(model_->value(0, i), value_after(model_->shards, clocks, static_cast<float>(i)));
    EXPECT_FLOAT_EQ(model_->value(1, 2), value_after(model_->shards, clocks, 102));
  }
  // By (shard, clock): samples, of what has been reported.
  std::map<std::pair<int, int>, int> reports() {
    std::map<std::pair<int, int>, int> samples;
    while (const auto received = manager_.receive(50ms)) {
      const nlohmann::json& fields = received->message.fields;
      EXPECT_EQ(received->message.kind, MessageKind::report);
      if (fields.contains("compared")) {
        differences[{fields.at("shard"), fields.at("clock")}] = fields;
        continue;
      }
      EXPECT_EQ(fields.at("staleness"), 0);
      samples[{fields.at("shard"), fields.at("clock")}] = fields.at("samples");
    }
    return samples;
  }
  std::map<std::pair<int, int>, nlohmann::json> differences;  // by (shard, clock), as reports() has found them
  FakeModel& model() { return *model_; }
  FakeServer& server(std::size_t i) { return *servers_[i]; }

 private:
  Mailbox manager_;
  std::unique_ptr<FakeModel> model_;
  std::vector<std::unique_ptr<FakeServer>> servers_;
  View view_;
};

TEST_F(WorkerTest, OneWorkerDoesAllShardsOfEveryClock) {
  use(2, 3);
  RunningWorker one(model(), "one", 10);
  one.worker.set_view(give({"one", "one", "one"}));
  one.start();
  wait_for_round(10);
  const auto reported = reports();
  one.worker.set_view(over());
  one.done.get();
  expect_values(10);
  EXPECT_EQ(one.work.steps, 30);
  ASSERT_EQ(reported.size(), 33U);
  EXPECT_EQ(reported.at({2, 9}), kSamples);
  EXPECT_EQ(reported.at({2, -1}), 0);  // where it began
}

TEST_F(WorkerTest, WhatAllShardsBeginWithNeedsOnePullAClock) {
  use(1, 3);
  RunningWorker one(model(), "one", 10, false);
  one.worker.set_view(give({"one", "one", "one"}));
  one.start();
  wait_for_round(10);
  one.worker.set_view(over());
  one.done.get();
  expect_values(10);
  EXPECT_EQ(one.client.counts().pulled_slices, 10 * model().slices.size());
}

TEST_F(WorkerTest, TwoWorkersTrainTheSameModel) {
  use(2, 2);
  RunningWorker one(model(), "one", 20);
  RunningWorker two(model(), "two", 20);
  for (RunningWorker* worker : {&one, &two}) {
    worker->worker.set_view(give({"one", "two"}));
    worker->start();
  }
  wait_for_round(20);
  const View end = over();
  one.worker.set_view(end);
  two.worker.set_view(end);
  one.done.get();
  two.done.get();
  expect_values(20);
  EXPECT_EQ(one.work.steps, 20);
  EXPECT_EQ(two.work.steps, 20);
}

// The other waits for the lost one's clock, which has become its own.
TEST_F(WorkerTest, TheShardOfALostWorkerIsTakenOverWhileOthersWaitForIt) {
  use(2, 2);
  RunningWorker one(model(), "one", 20);
  RunningWorker two(model(), "two", 20);
  std::promise<void> stuck;
  std::promise<void> killed;
  two.work.before_step = [&](int, std::int64_t clock) {
    if (clock != 7) return;
    stuck.set_value();
    killed.get_future().wait();
  };
  const View both = give({"one", "two"});
  one.worker.set_view(both);
  two.worker.set_view(both);
  one.start();
  two.start();
  stuck.get_future().wait();
  two.worker.leave();
  killed.set_value();
  two.done.get();
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(least_round(), 7);
  one.worker.set_view(give({"one", "one"}));
  wait_for_round(20);
  one.worker.set_view(over());
  one.done.get();
  expect_values(20);
}

TEST_F(WorkerTest, AShardThatIsGivenAwayIsNotTouchedAgain) {
  use(1, 2);
  RunningWorker one(model(), "one", 1000000);
  RunningWorker two(model(), "two", 1000000);
  const View all = give({"one", "one"});
  one.worker.set_view(all);
  two.worker.set_view(all);
  one.start();
  two.start();
  wait_for_round(5);
  const View divided = give({"one", "two"});
  two.worker.set_view(divided);
  one.worker.set_view(divided);
  const std::int64_t round = least_round();
  wait_for_round(round + 5);
  const View stop = stop_at(round + 20);
  one.worker.set_view(stop);
  two.worker.set_view(stop);
  wait_for_round(round + 20);
  const View end = over();
  one.worker.set_view(end);
  two.worker.set_view(end);
  one.done.get();
  two.done.get();
  expect_values(round + 20);
  EXPECT_GE(two.work.steps, 5);
}

// What servers made of a clock, when all shards have done it.
TEST_F(WorkerTest, ModelsAreComparedWithTheServersOfTheNextClock) {
  use(2, 3);
  for (const bool pulls_every_shard : {true, false}) {
    const std::int64_t begin = least_round();
    RunningWorker one(model(), "one", begin + 10, pulls_every_shard);
    one.work.compares = true;
    one.worker.set_view(give({"one", "one", "one"}));
    one.start();
    wait_for_round(begin + 10);
    while (!differences.contains({2, begin + 9})) reports();
    one.worker.leave();
    one.done.get();
    for (int shard = 0; shard < 3; ++shard)
      for (const std::int64_t clock : {begin + 4, begin + 9}) {
        const nlohmann::json& said = differences.at({shard, clock});
        EXPECT_FLOAT_EQ(said.at("distance"), value_after(3, clock + 1, 102));
        EXPECT_EQ(said.at("kl"), 1);
      }
  }
  EXPECT_FALSE(differences.at({0, 9}).at("compared").get<bool>());  // the second worker has not had that model
}

TEST_F(WorkerTest, LeavingEndsAWaitForOthers) {
  use(1, 2);
  RunningWorker one(model(), "one", 20);
  one.worker.set_view(give({"one", "two"}));
  one.start();
  EXPECT_EQ(one.done.wait_for(50ms), std::future_status::timeout);
  one.worker.leave();
  one.done.get();
  EXPECT_EQ(one.work.steps, 1);
}

TEST_F(WorkerTest, ARefusalIsThrown) {
  use(1, 1);
  RunningWorker one(model(), "one", 20);
  server(0).refuse("bad");
  one.worker.set_view(give({"one"}));
  one.start();
  EXPECT_THROW(one.done.get(), Refused);
}

}  // namespace
}  // namespace trifold
