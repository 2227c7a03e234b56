// What a push may say: anybody can send one.
#include "parallel/servers/server/push_message.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

constexpr int kPushShards = 4;

ServedLayout pushed_layout() {
  ServedLayout two;
  two.tensors = {{.name = "w", .elements = 6}};
  two.slices = cut_into_slices(two.tensors, 3);
  two.shards = kPushShards;
  return two;
}

Message push_with(nlohmann::json changes = nlohmann::json::object()) {
  Message message{.kind = MessageKind::push,
                  .fields = {{"id", 7},
                             {"shard", 1},
                             {"clock", 2},
                             {"weight", 0.5},
                             {"rate", 0.1},
                             {"slices", {0, 1}},
                             {"sizes", {3, 2}}}};
  message.fields.update(changes);
  message.payload = Payload::own(std::vector<std::byte>(5));
  return message;
}

TEST(PushMessage, GivesEverySliceItsPart) {
  const PushRequest request = push_from(push_with({{"shards", {1, 3}}}), pushed_layout(), kPushShards);
  EXPECT_EQ(request.id, 7u);
  EXPECT_EQ(request.slices, (std::vector<int>{0, 1}));
  ASSERT_EQ(request.pushes.size(), 2u);
  EXPECT_EQ(request.pushes[0].encoding.size(), 3u);
  EXPECT_EQ(request.pushes[1].encoding.size(), 2u);
  EXPECT_EQ(request.pushes[1].shard, 1);
  EXPECT_EQ(request.pushes[1].shards, (std::vector<int>{1, 3}));
  EXPECT_EQ(request.pushes[1].clock, 2);
  EXPECT_EQ(request.pushes[1].weight, 0.5);
  EXPECT_EQ(request.pushes[1].rate, 0.1);
}

TEST(PushMessage, RefusesWhatNoWorkerSends) {
  const nlohmann::json wrong[] = {
      {{"shard", -1}},         {{"shard", kPushShards}},
      {{"clock", -1}},         {{"weight", 0}},
      {{"weight", -1}},        {{"shards", {1}}},
      {{"shards", {2, 3}}},    {{"shards", {1, 1}}},
      {{"shards", {1, 3, 2}}}, {{"shards", {1, kPushShards}}},
      {{"slices", {0, 2}}},    {{"slices", {0}}},
      {{"sizes", {3}}},        {{"sizes", {3, 3}}},
      {{"sizes", {3, 1}}},     {{"sizes", {6, 0}}},
  };
  for (const nlohmann::json& changes : wrong)
    EXPECT_THROW(push_from(push_with(changes), pushed_layout(), kPushShards), Error) << changes;
}

}  // namespace
}  // namespace trifold
