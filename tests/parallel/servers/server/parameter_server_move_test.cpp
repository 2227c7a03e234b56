// Slices that move from server to server: nobody is told that they are gone while they are on their way, and until they
// have arrived, with their replicas, the copies of before are kept.
#include <chrono>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "parallel/servers/server/parameter_server.h"
#include "parallel/servers/slices/gradient_codec.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;

constexpr int kMovedSlices = 24;

struct MovingServer {
  MovingServer(const std::string& id, const ServedLayout& layout, std::map<int, SliceState> held = {})
      : mailbox({.listen = "tcp://127.0.0.1:*"}),
        server({.id = id,
                .layout = layout,
                .rule = make_aggregation({}),
                .update = make_optimizer_update({}),
                .mailbox = &mailbox,
                .held = std::move(held)}),
        info{.id = id, .role = "server", .address = mailbox.address()} {}

  Mailbox mailbox;
  ParameterServer server;
  MemberInfo info;
};

class MovingSlices : public ::testing::Test {
 protected:
  MovingSlices() {
    for (int i = 0; i < kMovedSlices; ++i) layout_.tensors.push_back({.name = "t" + std::to_string(i), .elements = 2});
    layout_.slices = cut_into_slices(layout_.tensors, 2);
    view_.leader = {.id = "manager", .role = "manager", .address = manager_.address()};
    for (const char* id : {"a", "b", "c"}) servers_.emplace(id, std::make_unique<MovingServer>(id, layout_));
  }

  MovingServer& server(const std::string& id) { return *servers_.at(id); }
  // It was given up for lost, and comes back under another name with what it holds.
  void come_back(const std::string& before, const std::string& id) {
    servers_.emplace(id, std::make_unique<MovingServer>(id, layout_, server(before).server.give_up()));
  }

  // A new epoch of these servers. Without sources it is not settled.
  void change_to(const std::vector<std::string>& ids, std::vector<std::string> sources = {}) {
    view_.epoch += 1;
    view_.servers.clear();
    for (const std::string& id : ids) view_.servers.push_back(server(id).info);
    view_.settled = !sources.empty();
    view_.safe = false;
    view_.sources = std::move(sources);
    publish();
  }
  void publish() {
    view_.version += 1;
    for (const MemberInfo& info : view_.servers) server(info.id).server.follow(view_);
  }
  std::vector<SlicePlace> places() const { return place_slices(layout_.tensors, layout_.slices, view_.server_ids()); }
  std::vector<std::string> owners() const {
    std::vector<std::string> ids;
    for (const SlicePlace& place : places()) ids.push_back(view_.servers[static_cast<std::size_t>(place.primary)].id);
    return ids;
  }
  static std::vector<std::string> all_from(const std::string& id) { return std::vector<std::string>(kMovedSlices, id); }

  // They handle what comes until an answer is there; the manager hands out first values.
  Message ask(const std::string& id, Message question, const std::set<std::string>& awake) {
    if (!lines_.contains(id)) lines_[id] = client_.connect(server(id).mailbox.address());
    client_.send(lines_.at(id), question);
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (std::chrono::steady_clock::now() < deadline) {
      pump(awake);
      if (auto answer = client_.receive(0ms)) return std::move(answer->message);
    }
    return {};
  }
  void pump(const std::set<std::string>& awake) {
    if (const auto fetch = manager_.receive(0ms)) manager_.send(fetch->from, first_values(fetch->message));
    for (const std::string& id : awake) {
      if (const auto received = server(id).mailbox.receive(1ms)) server(id).server.handle(*received);
      server(id).server.tick();
    }
  }
  Message first_values(const Message& fetch) const {
    Message answer{.kind = MessageKind::fetch_answer, .fields = {{"id", 0}, {"epoch", fetch.fields.at("epoch")}}};
    std::vector<NumberedState> states;
    for (const int slice : take_slices(fetch, layout_))
      states.emplace_back(
          slice, SliceState{.values = std::make_shared<std::vector<float>>(2, 5.0F), .version = 1, .applied = {0}});
    put_states(answer, states, layout_);
    return answer;
  }
  Message status(const std::string& id, const std::set<std::string>& awake) {
    return ask(id, {.kind = MessageKind::status, .fields = {{"id", 0}}}, awake);
  }
  void settle_all(const std::set<std::string>& awake) {
    for (const std::string& id : awake)
      while (!status(id, awake).fields.at("safe").get<bool>()) {
      }
  }

  ServedLayout layout_;
  Mailbox manager_{{.listen = "tcp://127.0.0.1:*"}};
  Mailbox client_{MailboxOptions{}};
  std::map<std::string, PeerId> lines_;
  std::map<std::string, std::unique_ptr<MovingServer>> servers_;
  View view_;
};

// A worker may hear of a view before a server does. What it pushes then is neither refused, to be sent a second time,
// nor lost; what comes by the view of before is refused.
TEST_F(MovingSlices, WhoKnowsTheNextViewSoonerWaitsForTheServerToHearOfIt) {
  change_to({"a"}, all_from("manager"));
  settle_all({"a"});
  std::vector<std::byte> values;
  encode(std::vector<float>(2, 1.0F), {}, {}, values);
  const auto push_of = [&](std::int64_t epoch, std::int64_t clock) {
    Message push{.kind = MessageKind::push,
                 .fields = {{"id", 10 * epoch + clock},
                            {"epoch", epoch},
                            {"shard", 0},
                            {"clock", clock},
                            {"weight", 1.0},
                            {"rate", 0.1},
                            {"slices", {0}},
                            {"sizes", {values.size()}}}};
    push.payload = Payload::own(values);
    return push;
  };
  const std::int64_t next = view_.epoch + 1;
  client_.send(lines_.at("a"), push_of(next, 0));
  for (int i = 0; i < 50; ++i) pump({"a"});
  EXPECT_FALSE(client_.receive(0ms));
  EXPECT_EQ(server("a").server.counts().refused, 0);
  EXPECT_EQ(server("a").server.counts().pushes, 0);

  change_to({"a"}, all_from("a"));
  std::optional<Received> answer;
  for (int i = 0; i < 1000 && !answer; ++i) {
    pump({"a"});
    answer = client_.receive(1ms);
  }
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->message.kind, MessageKind::push_answer);
  EXPECT_EQ(answer->message.fields.at("ids"), nlohmann::json({10 * next}));
  EXPECT_EQ(server("a").server.counts().pushes, 1);
  const Message late = ask("a", push_of(next - 1, 1), {"a"});
  ASSERT_EQ(late.kind, MessageKind::refusal);
  EXPECT_EQ(late.fields.at("code"), "epoch");
}

// Only so much is kept of what says that it is of a view to come.
TEST_F(MovingSlices, WhatWaitsForAViewIsBounded) {
  change_to({"a"}, all_from("manager"));
  settle_all({"a"});
  const std::vector<std::byte> much(layout_.all_state_bytes());
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    Message replica{.kind = MessageKind::replicate, .fields = {{"id", i}, {"epoch", view_.epoch + 1}}};
    replica.payload = Payload::own(much);
    client_.send(lines_.at("a"), replica);
  }
  const int kept = 2 * (1 + 1);  // twice what one worker and a replica may have on their way
  for (int i = 0; i < 1000 && refused < 100 - kept; ++i) {
    pump({"a"});
    while (const auto answer = client_.receive(0ms)) refused += answer->message.fields.at("code") == "epoch" ? 1 : 0;
  }
  for (int i = 0; i < 50; ++i) pump({"a"});
  EXPECT_FALSE(client_.receive(0ms));
  EXPECT_EQ(refused, 100 - kept);
}

TEST_F(MovingSlices, WhoAsksForASliceThatIsOnItsWayWaitsForIt) {
  change_to({"a", "b"}, all_from("manager"));
  settle_all({"a", "b"});
  const std::vector<std::string> before = owners();
  change_to({"a", "b", "c"}, before);
  int moved = 0;
  while (owners()[static_cast<std::size_t>(moved)] != "c") ++moved;
  client_.send(
      lines_["c"] = client_.connect(server("c").mailbox.address()),
      {.kind = MessageKind::fetch, .fields = {{"id", 7}, {"epoch", view_.epoch}, {"slices", {moved}}, {"cut", -1}}});
  // Only c is awake: it has the question, and not the slice.
  const auto has_it = [&] { return server("c").server.counts().refused > 0 || client_.receive(0ms).has_value(); };
  for (int i = 0; i < 50; ++i) {
    pump({"c"});
    ASSERT_FALSE(has_it());
  }
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  std::optional<Received> answer;
  while (!answer && std::chrono::steady_clock::now() < deadline) {
    pump({"a", "b", "c"});
    answer = client_.receive(0ms);
  }
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->message.kind, MessageKind::fetch_answer);
  EXPECT_EQ(take_states(answer->message, layout_).at(0).first, moved);
}

// A slice that moved may be behind what its owner before had: a cut that it has not reached is not gone.
TEST_F(MovingSlices, ACutThatASliceHasNotReachedIsToBeAskedForAgain) {
  change_to({"a"}, all_from("manager"));
  settle_all({"a"});
  const auto code_of_cut = [&](std::int64_t cut) {
    const Message answer = ask(
        "a", {.kind = MessageKind::fetch, .fields = {{"id", 1}, {"epoch", view_.epoch}, {"slices", {3}}, {"cut", cut}}},
        {"a"});
    return answer.fields.value("code", std::string());
  };
  EXPECT_EQ(code_of_cut(1), "early");
  EXPECT_EQ(code_of_cut(0), "gone");  // no cut is kept at the start
}

// c comes, and before anything has moved it goes again, and a with it.
TEST_F(MovingSlices, CopiesOfBeforeAreKeptUntilTheNewOnesAreThere) {
  change_to({"a", "b"}, all_from("manager"));
  settle_all({"a", "b"});
  change_to({"a", "b", "c"}, owners());
  change_to({"b"});
  EXPECT_EQ(status("b", {"b"}).fields.at("slices").size(), kMovedSlices);
}

TEST_F(MovingSlices, OnceAllIsSafeOnlyOwnersAndReplicasHaveIt) {
  change_to({"a", "b"}, all_from("manager"));
  settle_all({"a", "b"});
  change_to({"a", "b", "c"}, owners());
  EXPECT_FALSE(status("c", {"c"}).fields.at("safe").get<bool>());
  settle_all({"a", "b", "c"});
  view_.safe = true;
  publish();
  std::size_t expected = 0;
  for (const SlicePlace& place : places()) expected += place.primary == 1 || place.replica == 1 ? 1 : 0;
  change_to({"b"});
  EXPECT_LT(expected, kMovedSlices);
  EXPECT_EQ(status("b", {"b"}).fields.at("slices").size(), expected);
}

// All leases ran out at once: nobody else has the model.
TEST_F(MovingSlices, ServersThatComeBackGoOnWithWhatTheyHold) {
  change_to({"a", "b"}, all_from("manager"));
  settle_all({"a", "b"});
  const std::vector<std::string> before = owners();
  come_back("a", "a2");
  come_back("b", "b2");
  change_to({"a2", "b2"});
  for (const char* id : {"a2", "b2"}) {
    const Message held = status(id, {"a2", "b2"});
    ASSERT_EQ(held.fields.at("slices").size(), kMovedSlices);
    for (const auto& slice : held.fields.at("slices")) EXPECT_EQ(slice.at("epoch"), 1);
  }
  std::vector<std::string> sources = before;
  for (std::string& source : sources) source += "2";
  change_to({"a2", "b2"}, sources);
  settle_all({"a2", "b2"});
  EXPECT_EQ(status("a2", {"a2", "b2"}).fields.at("slices")[0].at("epoch"), view_.epoch);
}

// b went on alone to later versions before it noticed that it was given up: a replica must not hold on to them.
TEST_F(MovingSlices, WhatALaterOwnerSendsReplacesLaterVersionsOfAnEarlierOne) {
  change_to({"a", "b"}, all_from("manager"));
  settle_all({"a", "b"});
  std::map<int, SliceState> held = server("b").server.give_up();
  for (auto& [slice, state] : held) state.version += 10;
  servers_.emplace("b2", std::make_unique<MovingServer>("b2", layout_, std::move(held)));
  change_to({"a"});
  change_to({"a", "b2"}, all_from("a"));
  settle_all({"a", "b2"});
  change_to({"a", "b2"});
  const Message held_now = status("b2", {"a", "b2"});
  ASSERT_EQ(held_now.fields.at("slices").size(), kMovedSlices);
  for (const auto& slice : held_now.fields.at("slices")) {
    EXPECT_EQ(slice.at("version"), 1);
    EXPECT_EQ(slice.at("epoch"), 3);
  }
}

}  // namespace
}  // namespace trifold
