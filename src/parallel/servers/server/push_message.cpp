#include "parallel/servers/server/push_message.h"

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "parallel/servers/wire/payload_parts.h"

namespace trifold {

PushRequest push_from(const Message& message, const ServedLayout& layout, int shards) {
  const nlohmann::json& fields = message.fields;
  SlicePush push{.shard = fields.at("shard"),
                 .shards = fields.value("shards", std::vector<int>()),
                 .clock = fields.at("clock"),
                 .weight = fields.at("weight"),
                 .rate = fields.at("rate")};
  if (push.shard < 0 || push.shard >= shards || push.clock < 0 || !(push.weight > 0))
    fail_runtime("a push of no such shard, clock or weight");
  if (!push.shards.empty() && (push.shards.size() < 2 || push.shards.front() != push.shard ||
                               std::ranges::adjacent_find(push.shards, std::greater_equal()) != push.shards.end() ||
                               push.shards.back() >= shards))
    fail_runtime("a push of several shards that are not there, or not in their order");
  PushRequest request{.id = fields.at("id"), .slices = take_slices(message, layout)};
  for (Payload& encoding : payload_parts(message, request.slices.size())) {
    push.encoding = std::move(encoding);
    request.pushes.push_back(push);
  }
  return request;
}

}  // namespace trifold
