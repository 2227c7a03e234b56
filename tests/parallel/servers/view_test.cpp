// The view and members as texts: nothing is lost on the way, and a text that is not one is refused with its reason.
#include "parallel/servers/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

using ::testing::HasSubstr;

View sample_view() {
  return {.version = 12,
          .epoch = 3,
          .settled = true,
          .safe = true,
          .leader = {.id = "m", .role = "manager", .address = "tcp://10.0.0.9:5"},
          .begun_by = "m0",
          .servers = {{.id = "s1", .role = "server", .address = "tcp://10.0.0.1:5", .public_key = "k\"1\\"},
                      {.id = "s2", .role = "server", .address = "tcp://10.0.0.2:5", .public_key = ""}},
          .sources = {"s1", "s2", "m"},
          .workers = {"w1"},
          .shard_owners = {"w1", "", "w1"},
          .heads = {{.member = {.id = "w1",
                                .role = "worker",
                                .address = "tcp://127.0.0.1:6",
                                .public_key = "k2",
                                .host = "node one"},
                     .workers = {"w1", "w2"}}},
          .stop_clock = 0,
          .stopped_by = "1e-6 rule, réached",
          .over = true};
}

std::string refusal_of_view(const std::string& text) {
  try {
    view_from_text(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = to_text(sample_view());
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << text;
  return text.replace(at, from.size(), to);
}

TEST(View, ComesBackFromItsText) {
  EXPECT_EQ(view_from_text(to_text(sample_view())), sample_view());
  EXPECT_EQ(view_from_text(to_text(View{})), View{});
}

TEST(View, KnowsItsServers) {
  EXPECT_EQ(sample_view().server_ids(), (std::vector<std::string>{"s1", "s2"}));
  EXPECT_TRUE(sample_view().has({.id = "s2"}));
  EXPECT_TRUE(sample_view().has({.id = "w1"}));
  EXPECT_FALSE(sample_view().has({.id = "m"}));
}

TEST(View, KnowsWhoGoesThroughWhom) {
  const View view = sample_view();
  ASSERT_NE(view.head_of("w2"), nullptr);
  EXPECT_EQ(view.head_of("w2")->address, "tcp://127.0.0.1:6");
  EXPECT_EQ(view.head_of("w3"), nullptr);
  EXPECT_EQ(view.head_of(""), nullptr);
  EXPECT_EQ(view.shards_through("w1"), (std::vector<int>{0, 2}));
  EXPECT_TRUE(view.shards_through("w2").empty());
}

TEST(View, RefusesDamagedText) {
  EXPECT_EQ(refusal_of_view(""), "the view is damaged: it is no JSON object");
  EXPECT_EQ(refusal_of_view("[1]"), "the view is damaged: it is no JSON object");
  EXPECT_THAT(refusal_of_view("{}"), HasSubstr("is missing"));
  EXPECT_THAT(refusal_of_view(std::string(100000, '[')), HasSubstr("no JSON object"));
  const std::string text = to_text(sample_view());
  for (std::size_t end = 0; end < text.size(); ++end)
    ASSERT_THAT(refusal_of_view(text.substr(0, end)), HasSubstr("no JSON object")) << end;
}

TEST(View, RefusesFieldsOfAnotherKind) {
  EXPECT_THAT(refusal_of_view(changed("\"epoch\":3", "\"epoch\":3.5")), HasSubstr("'epoch' is no whole number"));
  EXPECT_THAT(refusal_of_view(changed("\"epoch\":3", "\"epoch\":-1")), HasSubstr("'epoch' is -1"));
  EXPECT_THAT(refusal_of_view(changed("\"epoch\":3", "\"epoch\":9223372036854775808")), HasSubstr("too large"));
  EXPECT_THAT(refusal_of_view(changed("\"settled\":true", "\"settled\":1")), HasSubstr("'settled'"));
  EXPECT_THAT(refusal_of_view(changed("\"workers\":[\"w1\"]", "\"workers\":[7]")), HasSubstr("'workers'"));
  EXPECT_THAT(refusal_of_view(changed("\"workers\":[\"w1\"]", "\"workers\":{}")), HasSubstr("'workers' is no list"));
  EXPECT_THAT(refusal_of_view(changed("\"stop_clock\":0", "\"stop_clock\":null")), HasSubstr("'stop_clock'"));
  EXPECT_THAT(refusal_of_view(changed("\"role\":\"server\"", "\"role\":\"spy\"")), HasSubstr("spy"));
}

TEST(MemberInfo, ComesBackFromItsText) {
  const MemberInfo member{.id = "w-1", .role = "worker", .address = "", .public_key = "abc"};
  EXPECT_EQ(member_from_text(to_text(member)), member);
}

TEST(MemberInfo, RefusesDamagedText) {
  for (const char* text : {"", "null", "{}", R"({"id":"","role":"worker","address":"","public_key":""})",
                           R"({"id":1,"role":"worker","address":"","public_key":""})"})
    EXPECT_THROW(member_from_text(text), Error) << text;
}

}  // namespace
}  // namespace trifold
