#include "parallel/servers/client/server_client.h"

#include <chrono>
#include <future>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include "support/fake_server.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;
using test::FakeModel;
using test::FakeServer;
using test::view_of;

constexpr std::int64_t kLargest = 64;

// Of one slice, of several, and of none.
std::vector<ServedTensor> some_tensors() {
  return {{.name = "conv.weight", .elements = 200},
          {.name = "conv.bias", .elements = 7},
          {.name = "nothing", .elements = 0},
          {.name = "linear.weight", .elements = 1000}};
}

ServerClientOptions options_for(const FakeModel& model) {
  return {.tensors = model.tensors, .shards = model.shards, .slice_elements = kLargest, .patience = 100ms};
}

class ServerClientTest : public ::testing::Test {
 protected:
  void use(int servers, int shards = 1) {
    model_ = std::make_unique<FakeModel>(some_tensors(), shards, kLargest);
    for (int i = 0; i < servers; ++i)
      servers_.push_back(std::make_unique<FakeServer>(*model_, "server-" + std::to_string(i)));
  }
  // Of the servers from `first` on, known to them all.
  View serve(std::int64_t epoch, std::size_t first = 0) {
    std::vector<FakeServer*> serving;
    for (std::size_t i = first; i < servers_.size(); ++i) serving.push_back(servers_[i].get());
    const View view = view_of(epoch, serving);
    for (const auto& server : servers_) server->set_view(view);
    return view;
  }
  FakeModel& model() { return *model_; }
  FakeServer& server(std::size_t i) { return *servers_[i]; }

 private:
  std::unique_ptr<FakeModel> model_;
  std::vector<std::unique_ptr<FakeServer>> servers_;
};

std::vector<ServerTicket> push_all(ServerClient& client, const FakeModel& model, int shard, std::int64_t clock,
                                   float value) {
  std::vector<ServerTicket> tickets;
  for (std::size_t i = 0; i < model.tensors.size(); ++i)
    tickets.push_back(client.push({.tensor = static_cast<int>(i), .shard = shard, .clock = clock, .rate = 1},
                                  std::vector<float>(static_cast<std::size_t>(model.tensors[i].elements), value)));
  return tickets;
}

std::vector<std::vector<float>> pull_all(ServerClient& client, const FakeModel& model, int shard, std::int64_t clock) {
  std::vector<std::vector<float>> values;
  for (const ServedTensor& tensor : model.tensors)
    values.emplace_back(static_cast<std::size_t>(tensor.elements), -1.0F);
  std::vector<PullInto> wanted;
  for (std::size_t i = 0; i < values.size(); ++i) wanted.push_back({static_cast<int>(i), values[i]});
  for (const ServerTicket& ticket : client.pull(shard, clock, wanted)) client.wait(ticket);
  return values;
}

// The fake's first values, less what all pushes took away.
void expect_values(const std::vector<std::vector<float>>& values, float less) {
  for (std::size_t t = 0; t < values.size(); ++t)
    for (std::size_t i = 0; i < values[t].size(); ++i)
      ASSERT_EQ(values[t][i], static_cast<float>(100 * t) + static_cast<float>(i % 50) - less)
          << "tensor " << t << ", element " << i;
}

std::string code_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const Refused& refused) {
    return refused.code();
  }
  return "";
}

TEST_F(ServerClientTest, WhatIsPushedIsPulledFromOneServer) {
  use(1);
  ServerClient client(options_for(model()));
  client.set_view(serve(1));
  expect_values(pull_all(client, model(), 0, 0), 0);
  for (const ServerTicket& ticket : push_all(client, model(), 0, 0, 2)) client.wait(ticket);
  expect_values(pull_all(client, model(), 0, 1), 2);
}

TEST_F(ServerClientTest, SlicesOfTwoServersMakeWholeTensors) {
  use(2);
  ServerClient client(options_for(model()));
  client.set_view(serve(1));
  for (int clock = 0; clock < 20; ++clock) {
    expect_values(pull_all(client, model(), 0, clock), static_cast<float>(clock));
    push_all(client, model(), 0, clock, 1);
  }
  client.wait_for_pushes();
  EXPECT_GT(server(0).pushes(), 0);
  EXPECT_GT(server(1).pushes(), 0);
  EXPECT_EQ(model().repeated, 0);
}

TEST_F(ServerClientTest, SmallSlicesTravelTogether) {
  use(1);
  ServerClient client(options_for(model()));
  client.set_view(serve(1));
  push_all(client, model(), 0, 0, 1);
  client.wait_for_pushes();
  EXPECT_EQ(server(0).pushes(), 1);
}

TEST_F(ServerClientTest, APullWaitsForTheOtherShards) {
  use(2, 2);
  ServerClient one(options_for(model()));
  ServerClient other(options_for(model()));
  const View view = serve(1);
  one.set_view(view);
  other.set_view(view);
  push_all(one, model(), 0, 0, 2);
  auto pulled = std::async(std::launch::async, [&] { return pull_all(one, model(), 0, 1); });
  EXPECT_EQ(pulled.wait_for(50ms), std::future_status::timeout);
  push_all(other, model(), 1, 0, 4);
  other.flush();
  expect_values(pulled.get(), 3);
  EXPECT_EQ(one.counts().staleness_max, 0);
  EXPECT_EQ(one.counts().pulled_slices, model().slices.size());
  EXPECT_GT(one.counts().sent_bytes, 1207 * sizeof(float));
}

TEST_F(ServerClientTest, EverythingWaitsForASettledView) {
  use(2);
  ServerClient client(options_for(model()));
  push_all(client, model(), 0, 0, 1);
  auto pulled = std::async(std::launch::async, [&] { return pull_all(client, model(), 0, 1); });
  View view = serve(1);
  view.settled = false;
  client.set_view(view);
  EXPECT_EQ(pulled.wait_for(50ms), std::future_status::timeout);
  EXPECT_EQ(server(0).pushes() + server(1).pushes(), 0);
  view.settled = true;
  view.version += 1;
  client.set_view(view);
  expect_values(pulled.get(), 1);
}

TEST_F(ServerClientTest, LostAnswersAreAskedForAgainAndCountOnce) {
  use(2);
  ServerClient client(options_for(model()));
  client.set_view(serve(1));
  server(0).lost_answers = 3;
  server(1).lost_answers = 2;
  for (int clock = 0; clock < 5; ++clock) {
    expect_values(pull_all(client, model(), 0, clock), static_cast<float>(clock));
    push_all(client, model(), 0, clock, 1);
  }
  client.wait_for_pushes();
  expect_values(pull_all(client, model(), 0, 5), 5);
  EXPECT_GT(client.counts().sent_again, 0U);
}

// A round may take longer than the patience: what a server that answers has not answered yet waits there.
TEST_F(ServerClientTest, NothingIsSentAgainToAServerThatAnswers) {
  use(1, 2);
  ServerClient one(options_for(model()));
  ServerClient other(options_for(model()));
  const View view = serve(1);
  one.set_view(view);
  other.set_view(view);
  push_all(one, model(), 0, 0, 2);
  one.flush();
  const auto until = std::chrono::steady_clock::now() + 400ms;
  while (std::chrono::steady_clock::now() < until) {
    one.status();
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(one.counts().sent_again, 0U);
  push_all(other, model(), 1, 0, 4);
  other.flush();
  expect_values(pull_all(one, model(), 0, 1), 3);
}

TEST_F(ServerClientTest, PullsThatOvertakeBringWhatWasPushed) {
  use(2);
  ServerClientOptions options = options_for(model());
  options.pulls_overtake = true;
  ServerClient client(options);
  client.set_view(serve(1));
  server(0).lost_answers = 3;
  for (int clock = 0; clock < 5; ++clock) {
    push_all(client, model(), 0, clock, 1);
    expect_values(pull_all(client, model(), 0, clock + 1), static_cast<float>(clock + 1));
  }
  client.wait_for_pushes();
}

TEST_F(ServerClientTest, ANewViewSendsWhatWasNotAnsweredToTheNewOwners) {
  use(3);
  ServerClient client(options_for(model()));
  client.set_view(serve(1));
  expect_values(pull_all(client, model(), 0, 0), 0);
  server(0).mute = true;  // dies, and takes pushes with it
  push_all(client, model(), 0, 0, 1);
  client.flush();
  auto pulled = std::async(std::launch::async, [&] { return pull_all(client, model(), 0, 1); });
  EXPECT_EQ(pulled.wait_for(50ms), std::future_status::timeout);
  client.set_view(serve(2, 1));
  expect_values(pulled.get(), 1);
  client.wait_for_pushes();
}

TEST_F(ServerClientTest, ServersMayComeAndGoAllTheTime) {
  use(3, 2);
  std::vector<std::unique_ptr<ServerClient>> clients;
  for (int i = 0; i < 2; ++i) clients.push_back(std::make_unique<ServerClient>(options_for(model())));
  const View first = serve(1);
  for (const auto& client : clients) client->set_view(first);
  std::vector<std::future<void>> working;
  for (int shard = 0; shard < 2; ++shard)
    working.push_back(std::async(std::launch::async, [&, shard] {
      ServerClient& client = *clients[static_cast<std::size_t>(shard)];
      for (int clock = 0; clock < 60; ++clock) {
        expect_values(pull_all(client, model(), shard, clock), static_cast<float>(clock));
        push_all(client, model(), shard, clock, 1);
      }
      client.wait_for_pushes();
    }));
  for (std::int64_t epoch = 2; epoch < 12; ++epoch) {
    std::this_thread::sleep_for(10ms);
    const View view = serve(epoch, static_cast<std::size_t>(epoch % 3));  // servers hear of it first, clients later
    clients[0]->set_view(view);
    std::this_thread::sleep_for(2ms);
    clients[1]->set_view(view);
  }
  for (auto& work : working) work.get();
  EXPECT_EQ(model().value(0, 0), -60);
}

TEST_F(ServerClientTest, AServerThatHasSeenANewerViewSaysSo) {
  use(1);
  std::promise<std::int64_t> newer;
  ServerClientOptions options = options_for(model());
  options.on_newer_epoch = [&, told = false](std::int64_t epoch) mutable {
    if (!std::exchange(told, true)) newer.set_value(epoch);
  };
  ServerClient client(options);
  const View old = serve(1);
  const View now = serve(2);
  client.set_view(old);
  auto pulled = std::async(std::launch::async, [&] { return pull_all(client, model(), 0, 0); });
  EXPECT_EQ(newer.get_future().get(), 2);
  EXPECT_EQ(pulled.wait_for(20ms), std::future_status::timeout);
  client.set_view(now);
  expect_values(pulled.get(), 0);
}

TEST_F(ServerClientTest, AServerThatIsBehindIsAskedAgain) {
  use(1);
  ServerClient client(options_for(model()));
  serve(1);
  client.set_view(view_of(2, {&server(0)}));
  auto pulled = std::async(std::launch::async, [&] { return pull_all(client, model(), 0, 0); });
  EXPECT_EQ(pulled.wait_for(20ms), std::future_status::timeout);
  serve(2);
  expect_values(pulled.get(), 0);
}

TEST_F(ServerClientTest, ARefusedPullIsAnErrorOfItsWaiterOnly) {
  use(1);
  ServerClient client(options_for(model()));
  client.set_view(serve(1));
  server(0).refuse("clock");
  EXPECT_EQ(code_of([&] { pull_all(client, model(), 0, 7); }), "clock");
  server(0).refuse("");
  expect_values(pull_all(client, model(), 0, 0), 0);
}

TEST_F(ServerClientTest, ARefusedPushIsForgottenByNobody) {
  use(1);
  ServerClient client(options_for(model()));
  client.set_view(serve(1));
  server(0).refuse("bad");
  const ServerTicket ticket = push_all(client, model(), 0, 0, 1).front();
  EXPECT_EQ(code_of([&] { client.wait(ticket); }), "bad");
  EXPECT_EQ(code_of([&] { pull_all(client, model(), 0, 0); }), "bad");
  EXPECT_EQ(code_of([&] { push_all(client, model(), 0, 1, 1); }), "bad");
}

TEST_F(ServerClientTest, FourClocksMayBeUnanswered) {
  use(1, 2);
  ServerClient client(options_for(model()));
  client.set_view(serve(1));
  for (int clock = 0; clock < 4; ++clock) push_all(client, model(), 0, clock, 1);
  auto fifth = std::async(std::launch::async, [&] { push_all(client, model(), 0, 4, 1); });
  EXPECT_EQ(fifth.wait_for(50ms), std::future_status::timeout);
  push_all(client, model(), 1, 0, 1);
  client.flush();
  fifth.get();
}

TEST_F(ServerClientTest, StopEndsEveryWait) {
  use(1, 2);
  ServerClient client(options_for(model()));
  client.set_view(serve(1));
  std::vector<float> values(200);
  const std::vector<PullInto> wanted = {{0, values}};
  const ServerTicket ticket = client.pull(0, 3, wanted).front();
  auto waiting = std::async(std::launch::async, [&] { return code_of([&] { client.wait(ticket); }); });
  auto status = std::async(std::launch::async, [&] {
    return code_of([&] {
      while (true) client.status();
    });
  });
  EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);
  client.stop();
  EXPECT_EQ(waiting.get(), "stopped");
  EXPECT_EQ(status.get(), "stopped");
  EXPECT_EQ(code_of([&] { client.pull(0, 0, wanted); }), "stopped");
}

TEST_F(ServerClientTest, TheEndOfTheJobEndsWhatCannotComeAnyMore) {
  use(1, 2);
  ServerClient client(options_for(model()));
  View view = serve(1);
  client.set_view(view);
  push_all(client, model(), 0, 0, 1);
  auto pulled = std::async(std::launch::async, [&] { return code_of([&] { pull_all(client, model(), 0, 1); }); });
  EXPECT_EQ(pulled.wait_for(20ms), std::future_status::timeout);
  view.version += 1;
  view.stop_clock = 0;
  client.set_view(view);
  EXPECT_EQ(pulled.get(), "stopped");
  client.wait_for_pushes();  // of which the other shard's half never comes
}

TEST_F(ServerClientTest, StatusIsTheLeastOfAllSlices) {
  use(2, 1);
  ServerClient client(options_for(model()));
  client.set_view(serve(3));
  for (int clock = 0; clock < 3; ++clock) push_all(client, model(), 0, clock, 1);
  client.push({.tensor = 1, .shard = 0, .clock = 3, .rate = 1}, std::vector<float>(7));
  client.wait_for_pushes();
  EXPECT_EQ(client.least_applied(), std::vector<std::int64_t>{3});
  const std::vector<ServerStatus> all = client.status();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].epoch, 3);
  EXPECT_EQ(all[0].slices.size(), model().slices.size());
}

TEST_F(ServerClientTest, FetchBringsEverythingWithItsState) {
  use(2, 1);
  ServerClient client(options_for(model()));
  client.set_view(serve(1));
  push_all(client, model(), 0, 0, 5);
  client.wait_for_pushes();
  const FetchedModel fetched = client.fetch_all();
  std::vector<std::vector<float>> values;
  std::vector<std::vector<float>> states;
  for (const FetchedTensor& tensor : fetched.tensors) {
    values.push_back(tensor.values);
    states.push_back(tensor.values.empty() ? std::vector<float>{} : tensor.states.at(0));
  }
  expect_values(values, 5);
  expect_values(states, 5);  // as the fake has it
  EXPECT_EQ(fetched.applied, std::vector<std::int64_t>{1});
  EXPECT_EQ(fetched.tensors[3].updates, 1);
  server(1).refuse("gone");
  EXPECT_EQ(code_of([&] { client.fetch_all(17); }), "gone");
}

TEST_F(ServerClientTest, FetchWaitsForSlicesThatHaveNotReachedTheCut) {
  use(2, 1);
  ServerClient client(options_for(model()));
  client.set_view(serve(1));
  push_all(client, model(), 0, 0, 5);
  client.wait_for_pushes();
  server(1).refuse("early");
  auto fetched = std::async(std::launch::async, [&] { return client.fetch_all(1); });
  while (server(1).refusals() < 2 && fetched.wait_for(1ms) != std::future_status::ready) {
  }
  server(1).refuse("");
  std::vector<std::vector<float>> values;
  for (const FetchedTensor& tensor : fetched.get().tensors) values.push_back(tensor.values);
  expect_values(values, 5);
}

TEST_F(ServerClientTest, WhatACodingLeavesOutIsSaidLater) {
  use(2, 1);
  ServerClientOptions options = options_for(model());
  options.codec.keep = 0.25;
  ServerClient client(options);
  client.set_view(serve(1));
  std::vector<float> gradient(1000);
  std::iota(gradient.begin(), gradient.end(), 1.0F);
  for (int clock = 0; clock < 12; ++clock)
    client.push({.tensor = 3, .shard = 0, .clock = clock, .rate = 1}, clock == 0 ? gradient : std::vector<float>(1000));
  client.wait_for_pushes();
  for (const int i : {0, 1, 63, 64, 500, 999})
    EXPECT_EQ(model().value(3, i), 300.0F + static_cast<float>(i % 50) - gradient[static_cast<std::size_t>(i)]) << i;
}

}  // namespace
}  // namespace trifold
