// Servers whose rule chooses among whole models take the same shard's push in every slice, whatever each of them sees,
// and also when servers come and go in the middle of a round.
#include <chrono>
#include <set>

#include <gtest/gtest.h>

#include "parallel/servers/server/parameter_server.h"
#include "parallel/servers/slices/gradient_codec.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;

constexpr int kShards = 5;
constexpr std::int64_t kElements = 4;
constexpr int kTensors = 12;

// One large lie among small differences: shard 4 is in the middle of the others everywhere but in the last tensor.
float pushed(int shard, int tensor) {
  constexpr float kPlaces[kShards] = {-1, 1, 5, -5, 0};
  if (tensor == kTensors - 1) return shard == 4 ? 1000.0F : static_cast<float>(shard);
  return kPlaces[shard];
}

struct Pumped {
  Pumped(const std::string& id, const ServedLayout& layout)
      : mailbox({.listen = "tcp://127.0.0.1:*"}),
        server({.id = id,
                .layout = layout,
                .rules = {.participation = {.shards = kShards}},
                .rule = make_aggregation({.rule = "krum", .byzantine = 1}),
                .update = make_optimizer_update({}),
                .mailbox = &mailbox}),
        info{.id = id, .role = "server", .address = mailbox.address()} {}

  Mailbox mailbox;
  ParameterServer server;
  MemberInfo info;
};

class ChoosingServers : public ::testing::Test {
 protected:
  ChoosingServers() : manager_({.listen = "tcp://127.0.0.1:*"}), worker_(MailboxOptions{}) {
    for (int i = 0; i < kTensors; ++i)
      layout_.tensors.push_back(
          {.name = "t" + std::to_string(i), .elements = kElements, .trained = i != 0, .decays = false});
    layout_.slices = cut_into_slices(layout_.tensors, kElements);
    layout_.shards = kShards;
    for (const char* id : {"first", "second"}) servers_.push_back(std::make_unique<Pumped>(id, layout_));
  }

  // Everybody's slices come from where `sources` says; by default from the manager, with zeros.
  void serve(std::int64_t epoch, std::vector<std::string> sources = {}) {
    view_.version += 1;
    view_.epoch = epoch;
    view_.settled = true;
    view_.leader = {.id = "manager", .role = "manager", .address = manager_.address()};
    view_.servers.clear();
    for (const auto& server : servers_) view_.servers.push_back(server->info);
    view_.sources = sources.empty() ? std::vector<std::string>(layout_.slices.size(), "manager") : std::move(sources);
    for (const auto& server : servers_) server->server.follow(view_);
    places_ = place_slices(layout_.tensors, layout_.slices, view_.server_ids());
  }

  void push(int shard, std::int64_t clock, const std::set<std::string>& to, float add = 0) {
    for (std::size_t i = 0; i < layout_.slices.size(); ++i) {
      const MemberInfo& owner = view_.servers[static_cast<std::size_t>(places_[i].primary)];
      if (!to.contains(owner.id)) continue;
      if (!lines_.contains(owner.id)) lines_[owner.id] = worker_.connect(owner.address);
      std::vector<std::byte> bytes;
      const std::vector<float> values(kElements, pushed(shard, layout_.slices[i].tensor) + add);
      encode(values, {}, {}, bytes);
      const std::vector<std::size_t> sizes = {bytes.size()};
      worker_.send(lines_[owner.id], {.kind = MessageKind::push,
                                      .fields = {{"id", ++next_id_},
                                                 {"epoch", view_.epoch},
                                                 {"slices", std::vector<std::size_t>{i}},
                                                 {"sizes", sizes},
                                                 {"shard", shard},
                                                 {"clock", clock},
                                                 {"weight", 1.0},
                                                 {"rate", -1.0}},
                                      .payload = Payload::own(std::move(bytes))});
    }
  }
  void push_all(std::int64_t clock, const std::set<std::string>& to = {"first", "second"}) {
    for (int shard = 0; shard < kShards; ++shard) push(shard, clock, to);
  }

  // These handle what comes, until `done`.
  template <class Done>
  bool pump(const std::set<std::string>& who, Done done) {
    for (int tries = 0; tries < 5000; ++tries) {
      if (done()) return true;
      if (const auto fetch = manager_.receive(0ms)) answer_fetch(*fetch);
      while (worker_.receive(0ms)) {
      }
      for (const auto& server : servers_) {
        if (!who.contains(server->info.id)) continue;
        if (const auto received = server->mailbox.receive(1ms)) server->server.handle(*received);
        server->server.tick();
      }
    }
    return false;
  }
  void answer_fetch(const Received& received) {
    Message answer{.kind = MessageKind::fetch_answer,
                   .fields = {{"id", 0}, {"epoch", received.message.fields.at("epoch")}}};
    std::vector<NumberedState> states;
    for (const int slice : take_slices(received.message, layout_))
      states.emplace_back(slice, SliceState{.values = std::make_shared<std::vector<float>>(kElements, 0.0F),
                                            .version = 1,
                                            .applied = std::vector<std::int64_t>(kShards, 0)});
    put_states(answer, states, layout_);
    manager_.send(received.from, answer);
  }

  // What the slices of a server have, by tensor: asked for as another server would.
  std::map<int, float> values_of(const std::string& id) {
    std::vector<int> slices;
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (view_.servers[static_cast<std::size_t>(places_[i].primary)].id == id) slices.push_back(static_cast<int>(i));
    Mailbox asker{MailboxOptions{}};
    const auto server = std::ranges::find(servers_, id, [](const auto& one) { return one->info.id; });
    const PeerId peer = asker.connect((*server)->info.address);
    asker.send(peer, {.kind = MessageKind::fetch,
                      .fields = {{"id", 1}, {"epoch", view_.epoch}, {"slices", slices}, {"cut", -1}}});
    std::map<int, float> values;
    std::optional<Received> answer;
    pump({id}, [&] { return (answer = asker.receive(0ms)).has_value(); });
    if (!answer || answer->message.kind != MessageKind::fetch_answer) return values;
    for (const auto& [slice, state] : take_states(answer->message, layout_))
      values[layout_.slices[static_cast<std::size_t>(slice)].tensor] = state.values->front();
    return values;
  }
  std::map<int, float> all_values() {
    std::map<int, float> values = values_of("first");
    values.merge(values_of("second"));
    return values;
  }
  // Whether all slices of a server have this clock of shard 0.
  bool has_done(const std::string& id, std::int64_t clocks) {
    Mailbox asker{MailboxOptions{}};
    const auto server = std::ranges::find(servers_, id, [](const auto& one) { return one->info.id; });
    asker.send(asker.connect((*server)->info.address), {.kind = MessageKind::status, .fields = {{"id", 1}}});
    std::optional<Received> answer;
    pump({id}, [&] { return (answer = asker.receive(0ms)).has_value(); });
    if (!answer) return false;
    // Before the first values have come it tells of no slice at all.
    const nlohmann::json& slices = answer->message.fields.at("slices");
    const auto owned = static_cast<std::size_t>(std::ranges::count(owners(), id));
    return slices.size() == owned &&
           std::ranges::all_of(slices, [&](const auto& slice) { return slice.at("applied").at(0) >= clocks; });
  }
  std::int64_t pushes_of(const std::string& id) const {
    const auto server = std::ranges::find(servers_, id, [](const auto& one) { return one->info.id; });
    return (*server)->server.counts().pushes;
  }
  std::vector<std::string> owners() const {
    std::vector<std::string> ids;
    for (const SlicePlace& place : places_) ids.push_back(view_.servers[static_cast<std::size_t>(place.primary)].id);
    return ids;
  }

  ServedLayout layout_;
  Mailbox manager_;
  Mailbox worker_;
  std::map<std::string, PeerId> lines_;
  std::vector<std::unique_ptr<Pumped>> servers_;
  View view_;
  std::vector<SlicePlace> places_;
  std::uint64_t next_id_ = 0;
};

TEST_F(ChoosingServers, TakeOneShardInEverySliceAndNotTheOneThatLiesInSome) {
  const auto rule = make_aggregation({.rule = "krum", .byzantine = 1});
  std::vector<std::vector<float>> of_one_slice;
  for (int shard = 0; shard < kShards; ++shard) of_one_slice.emplace_back(kElements, pushed(shard, 1));
  std::vector<Contribution> contributions;
  for (const auto& values : of_one_slice) contributions.push_back({.values = values.data()});
  std::vector<float> alone(kElements);
  rule->combine(contributions, alone);
  EXPECT_EQ(alone.front(), pushed(4, 1));  // a slice alone would believe the liar

  serve(1);
  for (const char* id : {"first", "second"})
    ASSERT_TRUE(std::ranges::count(owners(), id) > 1) << id << " has too little to see";
  push_all(0);
  ASSERT_TRUE(pump({"first", "second"}, [&] { return has_done("first", 1) && has_done("second", 1); }));
  const std::map<int, float> values = all_values();
  ASSERT_EQ(values.size(), std::size_t{kTensors});
  for (const auto& [tensor, value] : values) EXPECT_EQ(value, pushed(1, tensor)) << tensor;  // statistic t0 too
}

TEST_F(ChoosingServers, GoOnClockByClock) {
  serve(1);
  push_all(1);  // comes early
  push_all(0);
  ASSERT_TRUE(pump({"first", "second"}, [&] { return has_done("first", 2) && has_done("second", 2); }));
  for (const auto& [tensor, value] : all_values()) EXPECT_EQ(value, pushed(1, tensor) * (tensor == 0 ? 1 : 2));
}

TEST_F(ChoosingServers, DoNotChooseBeforeAllHaveSaidWhatTheySee) {
  serve(1);
  push_all(0, {"first"});
  for (int shard = 0; shard + 1 < kShards; ++shard) push(shard, 0, {"second"});
  const auto slices = static_cast<std::int64_t>(layout_.slices.size());
  const std::int64_t lacks = std::ranges::count(owners(), "second");
  const auto all_there = [&] { return pushes_of("first") + pushes_of("second") == kShards * slices - lacks; };
  ASSERT_TRUE(pump({"first", "second"}, all_there));
  pump({"first", "second"}, [rounds = 0]() mutable { return ++rounds > 50; });
  EXPECT_FALSE(has_done("first", 1));
  push(4, 0, {"second"});
  EXPECT_TRUE(pump({"first", "second"}, [&] { return has_done("first", 1) && has_done("second", 1); }));
}

// The second server hears nothing of the choice before servers change, and what was pushed to it is lost. What comes
// again is such that shard 3 would be chosen now.
TEST_F(ChoosingServers, ARoundThatWasCompletedSomewhereIsCompletedAlikeElsewhere) {
  serve(1);
  push_all(0);
  ASSERT_TRUE(
      pump({"second"}, [&] { return pushes_of("second") == kShards * std::ranges::count(owners(), "second"); }));
  ASSERT_TRUE(pump({"first"}, [&] { return has_done("first", 1); }));
  serve(2, owners());
  for (int shard = 0; shard < kShards; ++shard) push(shard, 0, {"second"}, shard == 1 ? 500.0F : 0.0F);
  ASSERT_TRUE(pump({"first", "second"}, [&] { return has_done("second", 1); }));
  for (const auto& [tensor, value] : values_of("first")) EXPECT_EQ(value, pushed(1, tensor)) << tensor;
  for (const auto& [tensor, value] : values_of("second")) EXPECT_EQ(value, pushed(1, tensor) + 500) << tensor;
}

// The choice is told again to a server that says again what it had said.
TEST_F(ChoosingServers, AChoiceThatWasLostIsToldAgain) {
  servers_.erase(servers_.begin() + 1);
  Mailbox second({.listen = "tcp://127.0.0.1:*"});
  view_.version += 1;
  view_.epoch = 1;
  view_.settled = true;
  view_.leader = {.id = "manager", .role = "manager", .address = manager_.address()};
  view_.servers = {servers_.front()->info, {.id = "second", .role = "server", .address = second.address()}};
  view_.sources.assign(layout_.slices.size(), "manager");
  places_ = place_slices(layout_.tensors, layout_.slices, view_.server_ids());
  servers_.front()->server.follow(view_);
  push_all(0, {"first"});
  const PeerId first = second.connect(servers_.front()->info.address);
  Message said{.kind = MessageKind::distances, .fields = {{"id", 0}, {"epoch", 1}, {"server", "second"}}};
  put_report(said, {.clock = 0, .shards = {0, 1, 2, 3, 4}, .distances = std::vector<double>(kShards * kShards, 0.0)});
  for (int times = 0; times < 2; ++times) {
    std::optional<Received> choice;
    second.send(first, said);
    ASSERT_TRUE(pump({"first"}, [&] {
      choice = second.receive(0ms);
      return choice && choice->message.kind == MessageKind::choice;
    }));
    EXPECT_EQ(choice->message.fields.at("clock"), 0);
    EXPECT_EQ(choice->message.fields.at("epoch"), 1);
  }
}

}  // namespace
}  // namespace trifold
