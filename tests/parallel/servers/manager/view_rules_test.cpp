// What a manager decides when members come and go.
#include "parallel/servers/manager/view_rules.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

using Names = std::vector<std::string>;

TEST(AssignShardsTest, DividesEvenlyAndKeepsWhatWorkersHave) {
  EXPECT_EQ(assign_shards(Names(4), {"a", "b"}), (Names{"a", "b", "a", "b"}));
  EXPECT_EQ(assign_shards({"a", "b", "a", "b"}, {"a", "b"}), (Names{"a", "b", "a", "b"}));
}

TEST(AssignShardsTest, ShardsOfTheDeadGoToTheLeastLoaded) {
  EXPECT_EQ(assign_shards({"a", "b", "c", "a"}, {"a", "c"}), (Names{"a", "c", "c", "a"}));
  EXPECT_EQ(assign_shards({"a", "b"}, {}), Names(2));
}

TEST(AssignShardsTest, AWorkerThatJoinsGetsItsShareAndNoMoreIsMoved) {
  EXPECT_EQ(assign_shards({"a", "a", "a", "a"}, {"a", "b"}), (Names{"a", "a", "b", "b"}));
  EXPECT_EQ(assign_shards({"a", "b"}, {"a", "b", "c"}), (Names{"a", "b"}));  // it stands by
}

MemberInfo worker(const std::string& id, const std::string& host) {
  return {.id = id, .role = "worker", .address = "tcp://127.0.0.1:1", .public_key = {}, .host = host};
}

// "host: head of workers", one a head.
Names text_of(const std::vector<HeadOfHost>& heads) {
  Names texts;
  for (const HeadOfHost& head : heads) {
    std::string text = head.member.host + ": " + head.member.id + " of";
    for (const std::string& each : head.workers) text += " " + each;
    texts.push_back(text);
  }
  return texts;
}

TEST(AssignHeadsTest, AHostOfSeveralShardsHasOne) {
  const std::vector<MemberInfo> workers = {worker("a", "h1"), worker("b", "h2"), worker("c", "h1"), worker("d", "h3")};
  EXPECT_EQ(text_of(assign_heads({}, workers, {"a", "b", "c", "d"})), (Names{"h1: a of a c"}));
  EXPECT_EQ(text_of(assign_heads({}, workers, {"a", "b", "a", "b"})), (Names{"h1: a of a c", "h2: b of b"}));
  EXPECT_TRUE(assign_heads({}, workers, Names(4)).empty());
}

TEST(AssignHeadsTest, AHeadStaysAsLongAsItLives) {
  const std::vector<HeadOfHost> before = assign_heads({}, {worker("b", "h"), worker("c", "h")}, {"b", "c"});
  ASSERT_EQ(text_of(before), (Names{"h: b of b c"}));
  EXPECT_EQ(text_of(assign_heads(before, {worker("a", "h"), worker("b", "h"), worker("c", "h")}, {"b", "c"})),
            (Names{"h: b of a b c"}));
  EXPECT_EQ(text_of(assign_heads(before, {worker("a", "h"), worker("c", "h")}, {"a", "c"})), (Names{"h: a of a c"}));
}

TEST(AssignHeadsTest, WhoCannotBeCalledIsAlone) {
  MemberInfo deaf = worker("a", "h");
  deaf.address.clear();
  EXPECT_TRUE(assign_heads({}, {deaf, worker("b", "h")}, {"a", "b"}).empty());
  EXPECT_TRUE(assign_heads({}, {worker("a", ""), worker("b", "")}, {"a", "b"}).empty());
}

// --- who has a slice's newest state

using Reports = std::map<std::string, ServerReport>;

LastKeepers keepers(std::int64_t epoch, const std::string& owner, const std::string& replica, bool first = false) {
  return {.epoch = epoch, .first = first, .of_slice = {{.owner = owner, .replica = replica}}};
}

TEST(ChooseSourcesTest, TheNewestVersionWins) {
  const Reports servers = {{"s1", {.ids = {"s1"}, .held = {{0, {4, 5}}, {1, {4, 7}}}}},
                           {"s2", {.ids = {"s2"}, .held = {{0, {4, 6}}, {1, {4, 7}}}}}};
  const LastKeepers last{.epoch = 4, .of_slice = {{"s1", "s2"}, {"s1", "s2"}, {"s1", "s2"}}};
  EXPECT_EQ(choose_sources(3, servers, last, ""), (Names{"s2", "s1", ""}));
}

// s1 was given up in epoch 4, and s2 went on with what it had had of it: what s1 made of it since counts for nothing.
TEST(ChooseSourcesTest, ALaterOwnersVersionWinsOverWhoeverWentOnAlone) {
  const Reports servers = {{"s1b", {.ids = {"s1", "s1b"}, .held = {{0, {4, 9}}}}},
                           {"s2", {.ids = {"s2"}, .held = {{0, {5, 7}}}}}};
  EXPECT_EQ(choose_sources(1, servers, keepers(5, "s2", "s3"), ""), Names{"s2"});
}

// All leases ran out at once, and all have come back.
TEST(ChooseSourcesTest, WhoComesBackHasWhatItHeld) {
  const Reports servers = {{"s1b", {.ids = {"s1", "s1b"}, .held = {{0, {5, 9}}}}},
                           {"s2b", {.ids = {"s2", "s2b"}, .held = {{0, {5, 8}}}}}};
  EXPECT_EQ(choose_sources(1, servers, keepers(5, "s1", "s2"), "m"), Names{"s1b"});
}

// s3 has a copy of before. What s1 took since, and s2 had from it, may have been acknowledged: both are gone.
TEST(ChooseSourcesTest, AnOldCopyIsNoneWherePushesMayHaveBeenAcknowledgedSince) {
  Reports servers = {{"s3", {.ids = {"s3"}, .held = {{0, {4, 8}}}}}};
  EXPECT_EQ(choose_sources(1, servers, keepers(5, "s1", "s2"), "m"), Names{""});
  servers["s2"] = {.ids = {"s2"}};  // it is here, and never had any
  EXPECT_EQ(choose_sources(1, servers, keepers(5, "s1", "s2"), "m"), Names{"s3"});
}

TEST(ChooseSourcesTest, FirstValuesHelpWhereNothingCameOfThemYet) {
  EXPECT_EQ(choose_sources(1, {{"s1", {.ids = {"s1"}}}}, {}, "m"), Names{"m"});
  const Reports replica = {{"s2", {.ids = {"s2"}}}};
  EXPECT_EQ(choose_sources(1, replica, keepers(1, "s1", "s2", true), "m"), Names{"m"});
  EXPECT_EQ(choose_sources(1, replica, keepers(2, "s1", "s2", false), "m"), Names{""});
  EXPECT_EQ(choose_sources(1, replica, keepers(1, "s1", "", true), "m"), Names{""});
}

}  // namespace
}  // namespace trifold
