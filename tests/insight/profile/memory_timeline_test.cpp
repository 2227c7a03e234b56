// The owner of each byte during a step: what is shown lies where the plan put it, never two things in one place.
#include "insight/profile/memory_timeline.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "insight/profile/profile.h"
#include "support/folding.h"
#include "support/networks.h"
#include "support/schedules.h"

namespace trifold::test {
namespace {

Job job_with(const PlanConfig& plan) {
  Job job = fold_job(small_tutorial(), plan, {});
  job.data.source = synthetic_source(job.model, 64);
  return job;
}

std::vector<PlanConfig> memory_plans() {
  std::vector<PlanConfig> plans = plans_of_schedules(2);
  const std::vector<PlanConfig> others = {{},
                                          {.micro_batches = 2},
                                          {.dp = 2, .zero = 1},
                                          {.dp = 2, .micro_batches = 2, .zero = 2},
                                          {.dp = 2, .zero = 3},
                                          {.tp = 2}};
  plans.insert(plans.end(), others.begin(), others.end());
  return plans;
}

const MemoryRegion& region_at(const MemoryTimeline& timeline, std::size_t offset) {
  return *std::ranges::find_if(timeline.regions, [&](const MemoryRegion& region) {
    return offset >= region.offset && offset < region.offset + region.bytes;
  });
}

TEST(MemoryTimeline, NoTwoOwnersShareAByte) {
  for (const PlanConfig& plan : memory_plans()) {
    const Profile found = profile(job_with(plan), {.warmup = 0, .steps = 1});
    SCOPED_TRACE(::testing::Message() << plan.dp << plan.tp << plan.pp << ' ' << plan.schedule << " zero "
                                      << plan.zero);
    ASSERT_FALSE(found.memory.empty());
    for (const MemoryTimeline& timeline : found.memory)
      for (std::size_t i = 0; i < timeline.lives.size(); ++i) {
        const MemoryLife& a = timeline.lives[i];
        EXPECT_LE(a.first, a.last);
        EXPECT_LT(a.last, static_cast<int>(timeline.moments.size()));
        const MemoryRegion& region = region_at(timeline, a.offset);
        EXPECT_LE(a.offset + a.bytes, region.offset + region.bytes)
            << timeline.owners[static_cast<std::size_t>(a.owner)].name;
        for (std::size_t j = 0; j < i; ++j) {
          const MemoryLife& b = timeline.lives[j];
          const bool same_time = a.first <= b.last && b.first <= a.last;
          const bool same_bytes = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
          EXPECT_FALSE(same_time && same_bytes)
              << timeline.owners[static_cast<std::size_t>(a.owner)].name << " at " << a.first << " to " << a.last
              << " and " << timeline.owners[static_cast<std::size_t>(b.owner)].name << " at " << b.first << " to "
              << b.last;
        }
      }
  }
}

TEST(MemoryTimeline, FillsEveryRegionAsFarAsThePlanSays) {
  for (const PlanConfig& plan : memory_plans()) {
    const Job job = job_with(plan);
    const Profile found = profile(job, {.warmup = 0, .steps = 1});
    SCOPED_TRACE(::testing::Message() << plan.dp << plan.tp << plan.pp << ' ' << plan.schedule << " zero "
                                      << plan.zero);
    ParallelModel model(job);
    for (const MemoryTimeline& timeline : found.memory) {
      std::size_t planned = 0;
      for (const auto& chunk : model.chunks(timeline.ranks.front()))
        planned += chunk->training().program().memory.total_bytes();
      EXPECT_EQ(timeline.bytes, planned);
      EXPECT_EQ(timeline.bytes + timeline.evaluation_bytes, model.memory_bytes(timeline.ranks.front()));
      std::map<std::string, std::size_t> reached;
      for (const MemoryLife& life : timeline.lives) {
        const MemoryRegion& region = region_at(timeline, life.offset);
        reached[region.name] = std::max(reached[region.name], life.offset + life.bytes - region.offset);
      }
      for (const MemoryRegion& region : timeline.regions)
        // Places are padded to cache lines, and ZeRO's buckets to equal parts.
        EXPECT_LE(region.bytes - reached[region.name], plan.zero > 0 ? 512U : 63U) << region.name;
      for (const std::size_t live : timeline.live_bytes()) EXPECT_LE(live, timeline.bytes);
    }
  }
}

TEST(MemoryTimeline, KeepsActivationsFromForwardToBackward) {
  const Profile found = profile(job_with({}), {.warmup = 0, .steps = 1});
  ASSERT_EQ(found.memory.size(), 1U);
  const MemoryTimeline& timeline = found.memory.front();
  std::set<MemoryKind> kinds;
  for (const MemoryLife& life : timeline.lives) {
    const MemoryOwner& owner = timeline.owners[static_cast<std::size_t>(life.owner)];
    kinds.insert(owner.kind);
    if (owner.kind != MemoryKind::kept_activations) continue;
    const auto phase = [&](int moment) {
      return timeline.nodes[static_cast<std::size_t>(timeline.moments[static_cast<std::size_t>(moment)].node)].back();
    };
    EXPECT_EQ(phase(life.first), 'F') << owner.name;
    EXPECT_NE(phase(life.last), 'F') << owner.name;
    EXPECT_FALSE(owner.layer.empty()) << owner.name;
  }
  for (const MemoryKind kind : {MemoryKind::parameters, MemoryKind::weight_gradients, MemoryKind::batch,
                                MemoryKind::kept_activations, MemoryKind::activation_gradients})
    EXPECT_TRUE(kinds.contains(kind)) << name_of(kind);
}

TEST(MemoryTimeline, RanksThatHoldTheSameAreOne) {
  const Profile replicas = profile(job_with({.dp = 2}), {.warmup = 0, .steps = 1});
  ASSERT_EQ(replicas.memory.size(), 1U);
  EXPECT_EQ(replicas.memory.front().ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(profile(job_with({.pp = 2, .micro_batches = 2}), {.warmup = 0, .steps = 1}).memory.size(), 2U);
}

TEST(MemoryTimeline, JsonSaysThePeak) {
  MemoryTimeline timeline{.ranks = {0}, .bytes = 100, .nodes = {"a F", "b F"}};
  timeline.moments = {{.node = 0}, {.node = 1, .begin_ms = 2.5}};
  timeline.end_ms = 4;
  timeline.owners = {{"w", "conv", MemoryKind::parameters}, {"x", "conv", MemoryKind::scratch}};
  timeline.lives = {{.owner = 0, .first = 0, .last = 1, .offset = 0, .bytes = 10},
                    {.owner = 1, .first = 1, .last = 1, .offset = 10, .bytes = 70}};
  const auto json = to_json({timeline});
  EXPECT_EQ(json["timelines"][0]["peak_bytes"], 80);
  EXPECT_EQ(json["timelines"][0]["peak_moment"], 1);
  EXPECT_EQ(json["timelines"][0]["lives"][1], (nlohmann::ordered_json{1, 1, 1, 10, 70}));
  EXPECT_EQ(json["kinds"][0], "parameters");
}

}  // namespace
}  // namespace trifold::test
