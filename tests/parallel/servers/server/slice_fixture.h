// A slice that no server has, for tests of what it takes and gives out.
#pragma once

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "parallel/servers/server/served_slice.h"
#include "parallel/servers/slices/gradient_codec.h"

namespace trifold::test {

inline Payload encoded(const std::vector<float>& values) {
  std::vector<std::byte> bytes;
  encode(values, {}, {}, bytes);
  return Payload::own(std::move(bytes));
}

// Plain SGD with rate 1: the values are the first ones minus what was pushed.
class SliceFixture : public ::testing::Test {
 protected:
  ServedSlice make(ConsistencyRules rules, int shards, ServedTensor tensor = {}, AggregationArgs rule = {}) {
    rules_ = std::move(rules);
    rules_.participation.shards = shards;
    rule_ = make_aggregation(rule);
    update_ = make_optimizer_update({});
    return ServedSlice({.rules = &rules_, .rule = rule_.get(), .update = update_.get(), .tensor = std::move(tensor)},
                       {.values = std::make_shared<std::vector<float>>(2, 10.0f),
                        .version = 1,
                        .applied = std::vector<std::int64_t>(static_cast<std::size_t>(shards), 0)});
  }
  static SlicePush push(int shard, std::int64_t clock, float value, double weight = 1) {
    return {.shard = shard, .clock = clock, .weight = weight, .rate = 1, .encoding = encoded({value, 2 * value})};
  }

  // What a head makes of several shards' pushes by the mean.
  static SlicePush combined(std::vector<int> shards, std::int64_t clock, float mean) {
    SlicePush push = SliceFixture::push(shards.front(), clock, mean, static_cast<double>(shards.size()));
    push.shards = std::move(shards);
    return push;
  }

  ConsistencyRules rules_;
  std::unique_ptr<AggregationRule> rule_;
  std::unique_ptr<SliceUpdate> update_;
};

}  // namespace trifold::test
