// Requests as a hostile or forgetful peer may send them, and watches that wait without anybody waiting for them.
#include "parallel/servers/registry/registry_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trifold {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class RegistryServiceTest : public ::testing::Test {
 protected:
  std::vector<RegistryAnswer> ask(PeerId peer, const Json& fields) {
    return service_.handle(peer, {.kind = MessageKind::registry, .fields = fields}, now_);
  }
  Json answer(const Json& fields) {
    const auto answers = ask(1, fields);
    return answers.empty() ? Json() : answers.front().message.fields;
  }

  RegistryStore::Time now_ = std::chrono::steady_clock::now();
  std::shared_ptr<SharedRegistryStore> shared_ = std::make_shared<SharedRegistryStore>();
  RegistryService service_{shared_};
};

Json watch(int id, int revision, int timeout_ms) {
  return {{"id", id}, {"op", "changes"}, {"prefix", "m/"}, {"revision", revision}, {"timeout_ms", timeout_ms}};
}

TEST_F(RegistryServiceTest, AnswersCarryTheQuestionsId) {
  EXPECT_EQ(answer({{"id", 7}, {"op", "get"}, {"name", "a"}}), (Json{{"id", 7}, {"entry", nullptr}}));
  EXPECT_EQ(answer({{"id", 8}, {"op", "put_if"}, {"name", "a"}, {"seen", 0}, {"text", "A"}, {"lease", 0}}),
            (Json{{"id", 8}, {"revision", 1}}));
  EXPECT_EQ(answer({{"id", 9}, {"op", "list"}, {"prefix", ""}}),
            (Json{{"id", 9}, {"entries", Json::array({{{"name", "a"}, {"text", "A"}, {"revision", 1}}})}}));
}

TEST_F(RegistryServiceTest, RefusesWhatItDoesNotUnderstand) {
  for (const Json& fields :
       {Json(), Json::array({1}), Json{{"id", 1}}, Json{{"id", 1}, {"op", "shut"}}, Json{{"id", 1}, {"op", 3}},
        Json{{"id", 1}, {"op", "put"}, {"name", "a"}, {"text", 5}, {"lease", 0}},
        Json{{"id", 1}, {"op", "put"}, {"name", ""}, {"text", ""}, {"lease", 0}},
        Json{{"id", 1}, {"op", "put"}, {"name", "a"}, {"text", ""}, {"lease", 99}},
        Json{{"id", 1}, {"op", "put"}, {"name", "a"}, {"text", "\xFF"}, {"lease", 0}},
        Json{{"id", 1}, {"op", "grant"}, {"lives_ms", -5}}, Json{{"id", 1}, {"op", "grant"}, {"lives_ms", 1e300}},
        Json{{"id", 1}, {"op", "grant"}, {"lives_ms", 9223372036854775807}},
        Json{{"id", 1}, {"op", "changes"}, {"prefix", ""}, {"revision", -1}, {"timeout_ms", 0}}}) {
    const auto answers = ask(1, fields);
    ASSERT_EQ(answers.size(), 1u) << fields.is_object();
    EXPECT_EQ(answers[0].message.kind, MessageKind::refusal);
    EXPECT_EQ(answers[0].message.fields["code"], "bad");
    EXPECT_FALSE(answers[0].message.fields["why"].get<std::string>().empty());
  }
  EXPECT_EQ(shared_->store.revision(), 0);
  EXPECT_EQ(service_.waiting(), 0u);
  EXPECT_EQ(ask(1, {{"id", "text"}, {"op", "get"}, {"name", "a"}})[0].message.fields["id"], 0);
}

TEST_F(RegistryServiceTest, WatchWaitsForAChangeOfItsNames) {
  EXPECT_TRUE(ask(1, watch(5, 0, 1000)).empty());
  EXPECT_EQ(ask(2, {{"id", 1}, {"op", "put"}, {"name", "n"}, {"text", ""}, {"lease", 0}}).size(), 1u);
  const auto answers = ask(2, {{"id", 2}, {"op", "put"}, {"name", "m/a"}, {"text", "A"}, {"lease", 0}});
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].to, 2u);
  EXPECT_EQ(answers[1].to, 1u);
  EXPECT_EQ(answers[1].message.fields,
            (Json{{"id", 5},
                  {"changes", Json::array({{{"name", "m/a"}, {"text", "A"}, {"revision", 2}, {"removed", false}}})},
                  {"revision", 2}}));
  EXPECT_TRUE(service_.tick(now_ + 2s).empty());
}

TEST_F(RegistryServiceTest, WatchEndsWithItsTime) {
  EXPECT_TRUE(ask(1, watch(5, 0, 1000)).empty());
  EXPECT_TRUE(service_.tick(now_ + 999ms).empty());
  const auto answers = service_.tick(now_ + 1000ms);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].message.fields, (Json{{"id", 5}, {"changes", Json::array()}, {"revision", 0}}));
  EXPECT_EQ(service_.waiting(), 0u);
}

TEST_F(RegistryServiceTest, LeaseThatRunsOutEndsAWatch) {
  const auto lease = answer({{"id", 1}, {"op", "grant"}, {"lives_ms", 500}})["lease"];
  answer({{"id", 2}, {"op", "put"}, {"name", "m/a"}, {"text", "A"}, {"lease", lease}});
  EXPECT_TRUE(ask(1, watch(5, 1, 30000)).empty());
  EXPECT_TRUE(service_.tick(now_ + 499ms).empty());
  const auto answers = service_.tick(now_ + 500ms);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].message.fields["changes"][0]["removed"], true);
}

TEST_F(RegistryServiceTest, ChangeByTheManagerItselfIsToldByTheNextTick) {
  EXPECT_TRUE(ask(1, watch(5, 0, 1000)).empty());
  LocalRegistry(shared_).put("m/a", "A", 0);
  EXPECT_EQ(service_.tick(now_).size(), 1u);
}

TEST_F(RegistryServiceTest, PeerHasOneWatchAtMost) {
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(ask(1, watch(i, 0, 1000)).empty());
  EXPECT_EQ(service_.waiting(), 1u);
  EXPECT_EQ(ask(1, {{"id", 1}, {"op", "get"}, {"name", "a"}}).size(), 1u);  // it has given up waiting
  EXPECT_EQ(service_.waiting(), 0u);
}

TEST_F(RegistryServiceTest, WatchOfYearsEndsSoon) {
  Json fields = watch(5, 0, 0);
  fields["timeout_ms"] = std::int64_t{9223372036854775807};
  EXPECT_TRUE(ask(1, fields).empty());
  EXPECT_EQ(service_.tick(now_ + 31s).size(), 1u);
}

}  // namespace
}  // namespace trifold
