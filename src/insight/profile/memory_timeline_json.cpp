// Memory timelines as JSON: names once, then indices, since a step of a deep network has a thousand lives.
#include <algorithm>
#include <cmath>

#include "insight/profile/memory_timeline.h"

namespace trifold {
namespace {

double rounded_ms(double ms) {
  return std::round(ms * 1e4) / 1e4;
}

nlohmann::ordered_json timeline_json(const MemoryTimeline& timeline) {
  using Json = nlohmann::ordered_json;
  const std::vector<std::size_t> live = timeline.live_bytes();
  const auto peak = std::ranges::max_element(live);
  Json json = {{"ranks", timeline.ranks},
               {"bytes", timeline.bytes},
               {"evaluation_bytes", timeline.evaluation_bytes},
               {"peak_bytes", live.empty() ? 0 : *peak},
               {"peak_moment", live.empty() ? 0 : peak - live.begin()},
               {"end_ms", rounded_ms(timeline.end_ms)},
               {"nodes", timeline.nodes}};
  Json node = Json::array();
  Json micro_batch = Json::array();
  Json begin_ms = Json::array();
  for (const MemoryMoment& moment : timeline.moments) {
    node.push_back(moment.node);
    micro_batch.push_back(moment.micro_batch);
    begin_ms.push_back(rounded_ms(moment.begin_ms));
  }
  json["moments"] = {{"node", node}, {"micro_batch", micro_batch}, {"begin_ms", begin_ms}};
  json["regions"] = Json::array();
  for (const MemoryRegion& region : timeline.regions)
    json["regions"].push_back({{"name", region.name}, {"offset", region.offset}, {"bytes", region.bytes}});
  std::vector<std::string> layers;
  Json owners = Json::array();
  for (const MemoryOwner& owner : timeline.owners) {
    auto layer = std::ranges::find(layers, owner.layer);
    if (layer == layers.end()) layer = layers.insert(layers.end(), owner.layer);
    owners.push_back({owner.name, layer - layers.begin(), static_cast<int>(owner.kind)});
  }
  json["layers"] = layers;
  json["owners"] = owners;
  json["lives"] = Json::array();
  for (const MemoryLife& life : timeline.lives)
    json["lives"].push_back({life.owner, life.first, life.last, life.offset, life.bytes});
  return json;
}

}  // namespace

nlohmann::ordered_json to_json(const std::vector<MemoryTimeline>& timelines) {
  nlohmann::ordered_json json = {{"kinds", nlohmann::ordered_json::array()},
                                 {"timelines", nlohmann::ordered_json::array()}};
  for (int kind = 0; kind < kMemoryKinds; ++kind) json["kinds"].push_back(name_of(static_cast<MemoryKind>(kind)));
  for (const MemoryTimeline& timeline : timelines) json["timelines"].push_back(timeline_json(timeline));
  return json;
}

}  // namespace trifold
