// What several workers pull is asked for once.
#include "parallel/servers/aggregator/pull_share.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

using Slices = std::vector<int>;

Payload bytes_of(const std::string& text) {
  return Payload::own(std::vector<char>(text.begin(), text.end()));
}

std::string text_of(const Payload& payload) {
  return {reinterpret_cast<const char*>(payload.bytes().data()), payload.size()};
}

TEST(PullShareTest, ServersAreAskedOnceAndAllWhoAskedAreAnswered) {
  PullShare share(3);
  EXPECT_EQ(share.ask({.from = 1, .id = 10}, 5, {0, 1}), (Slices{0, 1}));
  EXPECT_EQ(share.ask({.from = 2, .id = 20}, 5, {1, 2}), Slices{2});
  EXPECT_TRUE(share.ask({.from = 1, .id = 10}, 5, {0, 1}).empty());  // once more, since nothing came
  share.answered(5, 1, bytes_of("one"), 5);
  const auto answers = share.take_answers();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].to, 1u);
  EXPECT_EQ(answers[0].message.fields, (nlohmann::json{{"id", 10}, {"slices", {1}}, {"sizes", {3}}, {"oldest", {5}}}));
  EXPECT_EQ(text_of(answers[0].message.payload), "one");
  EXPECT_EQ(answers[1].to, 2u);
  EXPECT_EQ(answers[1].message.fields["id"], 20);
}

TEST(PullShareTest, WhoAsksLaterGetsTheSame) {
  PullShare share(2);
  share.ask({.from = 1, .id = 10}, 5, {0, 1});
  share.answered(5, 0, bytes_of("zero"), 6);
  share.answered(5, 1, bytes_of("one"), 5);
  share.take_answers();
  EXPECT_TRUE(share.ask({.from = 2, .id = 20}, 5, {0, 1}).empty());
  const auto answers = share.take_answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].message.fields,
            (nlohmann::json{{"id", 20}, {"slices", {0, 1}}, {"sizes", {4, 3}}, {"oldest", {6, 5}}}));
  EXPECT_EQ(text_of(answers[0].message.payload), "zeroone");
}

TEST(PullShareTest, OnlyTheNewestClockIsKept) {
  PullShare share(1);
  for (const std::int64_t clock : {5, 6}) {
    share.ask({.from = 1, .id = 10}, clock, {0});
    share.answered(clock, 0, bytes_of(std::to_string(clock)), clock);
  }
  EXPECT_EQ(share.ask({.from = 2, .id = 20}, 5, {0}), Slices{0});  // by one who repeats it
  share.answered(5, 0, bytes_of("again"), 6);
  EXPECT_TRUE(share.ask({.from = 2, .id = 21}, 6, {0}).empty());
  share.forget();
  EXPECT_EQ(share.ask({.from = 2, .id = 22}, 6, {0}), Slices{0});
}

TEST(PullShareTest, ARefusalConcernsAllWhoAsked) {
  PullShare share(2);
  share.ask({.from = 1, .id = 10}, 5, {0, 1});
  share.ask({.from = 2, .id = 20}, 5, {0});
  EXPECT_EQ(share.refused(5, {0, 1}), (std::vector<Asker>{{.from = 1, .id = 10}, {.from = 2, .id = 20}}));
  EXPECT_EQ(share.ask({.from = 1, .id = 11}, 5, {0}), Slices{0});
}

}  // namespace
}  // namespace trifold
