// What a manager decides when members come and go.
#include "parallel/ps/manager/view_rules.h"

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

TEST(ChooseSourcesTest, TheNewestVersionWins) {
  const std::map<std::string, HeldVersions> servers = {{"s1", {{0, 5}, {1, 7}}}, {"s2", {{0, 6}, {1, 7}}}};
  EXPECT_EQ(choose_sources(3, servers), (Names{"s2", "s1", ""}));
}

}  // namespace
}  // namespace trifold
