// Stages that recompute: not a bit of what they make changes, and what they keep is what they received.
#include <algorithm>

#include <gtest/gtest.h>

#include "kernels/ops/batch_norm.h"
#include "kernels/ops/collective.h"
#include "runtime/train/model_options.h"
#include "runtime/train/parallel_model.h"
#include "runtime/train/parallel_plan.h"
#include "support/folding.h"
#include "support/networks.h"
#include "support/schedules.h"

namespace trifold::test::recompute_stage {
namespace {

struct NamedPlan {
  std::string name;
  PlanConfig plan;
  std::int64_t accumulate = 1;
};

PlanConfig pipeline(std::int64_t stages, const std::string& schedule, std::int64_t chunks = 1) {
  return {.pp = stages, .schedule = schedule, .micro_batches = 4, .chunks = chunks};
}

// Stages are balanced by what they have to do: both plans are cut where the plain one would be.
PlanConfig cut_as_it_is(const NetworkSpec& network, PlanConfig plan, const FoldOptions& options = {}) {
  const Job job = fold_job(network, plan, options);
  const std::vector<int> layers = make_parallel_plan(job, model_options(job)).layers_of_part;
  plan.stages.assign(layers.begin(), layers.end());
  return plan;
}

PlanConfig every_stage_recomputes(PlanConfig plan) {
  plan.recompute.stages.clear();
  for (std::int64_t stage = 0; stage < plan.pp; ++stage) plan.recompute.stages.push_back(stage);
  return plan;
}

std::vector<NamedPlan> plans() {
  std::vector<NamedPlan> list = {
      {"single", {}},
      {"accumulate", {}, 4},
      {"dp2", {.dp = 2}},
      {"tp2", {.tp = 2}},
      {"tp2_rows", {.tp = 2, .split = {{"*", "rows"}}}},
      {"1f1b_accumulate", {.pp = 2, .micro_batches = 2}, 2},
      {"dp2_zero3", {.dp = 2, .zero = 3, .bucket_bytes = 2000}},
      {"dp2_pp2_zero3", {.dp = 2, .pp = 2, .micro_batches = 2, .zero = 3, .bucket_bytes = 2000}},
      {"dp2_pp2_rows_zero_bubble",
       {.dp = 2, .tp = 2, .pp = 2, .schedule = "zero-bubble", .micro_batches = 2, .split = {{"*", "rows"}}}},
      {"dp2_tp2_pp2", {.dp = 2, .tp = 2, .pp = 2, .micro_batches = 2}}};
  for (const std::int64_t stages : {2, 3})
    for (const PlanConfig& plan : plans_of_schedules(stages)) list.push_back({test_name(plan), plan});
  return list;
}

struct NamedNetwork {
  std::string name;
  NetworkSpec (*make)();
};

class RecomputedStages : public ::testing::TestWithParam<std::tuple<NamedNetwork, NamedPlan>> {};

// Losses, weights, the optimiser's state and batch norm's running averages.
TEST_P(RecomputedStages, ChangeNoBit) {
  const auto& [net, named] = GetParam();
  for (const Recompute activations : {Recompute::never, Recompute::cheap, Recompute::always})
    for (const DType precision : {DType::f32, DType::bf16}) {
      if (precision == DType::bf16 && activations != Recompute::cheap) continue;
      FoldOptions options;
      options.accumulate = named.accumulate;
      options.optimizer.momentum = 0.9;
      options.precision = precision;
      const auto run = [&](const PlanConfig& plan) {
        Job job = fold_job(net.make(), plan, options);
        job.train.recompute = activations;
        return run_fold(job, 4, options.learning_rate);
      };
      const PlanConfig plan = cut_as_it_is(net.make(), named.plan, options);
      const FoldRun kept = run(plan);
      const FoldRun repeated = run(every_stage_recomputes(plan));
      EXPECT_EQ(repeated.losses, kept.losses) << name_of(activations);
      EXPECT_TRUE(repeated.parameters == kept.parameters) << name_of(activations);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Plans, RecomputedStages,
    ::testing::Combine(::testing::Values(NamedNetwork{"tutorial", small_tutorial}, NamedNetwork{"resnet", small_resnet},
                                         NamedNetwork{"concat", odd_network}, NamedNetwork{"vgg", small_vgg}),
                       ::testing::ValuesIn(plans())),
    [](const auto& each) { return std::get<0>(each.param).name + "_" + std::get<1>(each.param).name; });

// Groups that lie on both replicas: their statistics are joined in the forward work, and there only.
TEST(RecomputedStage, JoinsStatisticsOnce) {
  FoldOptions options;
  options.bn_group = 8;
  const PlanConfig plan = cut_as_it_is(small_resnet(), {.dp = 2, .pp = 2, .micro_batches = 2}, options);
  const FoldRun kept = run_fold(small_resnet(), plan, options);
  const FoldRun repeated = run_fold(small_resnet(), every_stage_recomputes(plan), options);
  EXPECT_EQ(repeated.losses, kept.losses);
  EXPECT_TRUE(repeated.parameters == kept.parameters);
}

// --- what is repeated

const Program& program_of(const ParallelModel& model, int rank) {
  return model.chunks(rank).front()->training().program();
}

ParallelModel folded(const NetworkSpec& network, const PlanConfig& plan) {
  return ParallelModel(fold_job(network, plan, {}));
}

int count_ops(const Program& program, std::string_view name, bool repeated) {
  return static_cast<int>(std::ranges::count_if(program.graph.nodes, [&](const Node& node) {
    return node.op->name() == name && node.repeats_forward == repeated;
  }));
}

TEST(RecomputedStage, RepeatsNoMessageNoStatisticsAndNoLoss) {
  const ParallelModel model = folded(small_resnet(), every_stage_recomputes(pipeline(3, "gpipe")));
  for (int rank = 0; rank < 3; ++rank) {
    const Program& program = program_of(model, rank);
    EXPECT_GT(count_ops(program, "conv2d.forward", true), 0) << rank;
    for (const char* once : {"send", "receive", "batch_norm.statistics", "cross_entropy"})
      EXPECT_EQ(count_ops(program, once, true), 0) << once << " of stage " << rank;
  }
}

// While a stage waits for its gradients it has something to do.
TEST(RecomputedStage, RepeatsBeforeItReceivesGradients) {
  const ParallelModel model = folded(small_vgg(), every_stage_recomputes(pipeline(2, "1f1b")));
  const std::vector<Node>& nodes = program_of(model, 0).graph.nodes;
  const auto repeated = std::ranges::find_if(nodes, &Node::repeats_forward);
  const auto received =
      std::ranges::find_if(nodes, [](const Node& node) { return node.op->name() == Receive{}.name(); });
  ASSERT_NE(repeated, nodes.end());
  ASSERT_NE(received, nodes.end());
  EXPECT_LT(repeated - nodes.begin(), received - nodes.begin());
}

// --- which stages

std::vector<bool> recomputing(const PlanConfig& plan) {
  const Job job = fold_job(small_vgg(), plan, {});
  return make_parallel_plan(job, model_options(job)).recomputes;
}

TEST(RecomputedStage, AllAreThoseThatHoldSeveralMicroBatches) {
  const auto all = [](PlanConfig plan) {
    plan.recompute.all = true;
    return recomputing(plan);
  };
  EXPECT_EQ(recomputing(pipeline(3, "1f1b")), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(all(pipeline(3, "1f1b")), (std::vector<bool>{true, true, false})) << "the last goes backward at once";
  EXPECT_EQ(all(pipeline(3, "gpipe")), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(all({.dp = 2}), std::vector<bool>{false});
  PlanConfig listed = pipeline(2, "interleaved", 2);
  listed.recompute.stages = {1};
  EXPECT_EQ(recomputing(listed), (std::vector<bool>{false, true, false, true})) << "both chunks of stage 1";
}

NetworkSpec chain_of_convolutions(int count) {
  std::vector<LayerEntry> layers;
  for (int i = 0; i < count; ++i)
    layers.push_back({"conv" + std::to_string(i),
                      "conv2d",
                      {},
                      {{"out", std::int64_t{8}}, {"kernel", Pair{3, 3}}, {"pad", Pair{1, 1}}}});
  layers.push_back({"pool", "global_avg_pool"});
  return network({8, 16, 16}, 8, layers);
}

std::vector<int> layers_within(const NetworkSpec& network, const PlanConfig& plan, std::int64_t memory_limit) {
  Job job = fold_job(network, plan, {});
  job.train.batch = 4096;
  job.train.memory_limit_bytes = memory_limit;
  return make_parallel_plan(job, model_options(job)).layers_of_part;
}

constexpr std::int64_t kPlenty = std::int64_t{1} << 40;

TEST(RecomputedStage, GetsFewerLayersForItsWork) {
  const NetworkSpec chain = chain_of_convolutions(12);
  PlanConfig plan = pipeline(2, "gpipe");
  const std::vector<int> even = layers_within(chain, plan, kPlenty);
  plan.recompute.stages = {0};
  EXPECT_LT(layers_within(chain, plan, kPlenty)[0], even[0]);
  plan.recompute.stages = {1};
  EXPECT_GT(layers_within(chain, plan, kPlenty)[0], even[0]);
}

// As the limit sinks, a plain first stage has to give layers away before one that recomputes has to.
TEST(RecomputedStage, KeepsItsLayersInLessMemory) {
  const auto least_memory = [](const PlanConfig& plan) {
    const std::vector<int> fastest = layers_within(small_vgg(), plan, kPlenty);
    std::int64_t limit = std::int64_t{1} << 30;
    while (limit > 1 << 20 && layers_within(small_vgg(), plan, limit) == fastest) limit = limit * 9 / 10;
    return limit;
  };
  EXPECT_LT(least_memory(every_stage_recomputes(pipeline(2, "gpipe"))), least_memory(pipeline(2, "gpipe")));
}

// --- memory

std::size_t aligned(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// What a micro-batch leaves behind where only what came is kept: that, what went, statistics and the loss's gradient.
std::size_t slot_bytes(const Program& program) {
  std::vector<ValueId> values;
  for (const Node& node : program.graph.nodes) {
    if (node.phase != Phase::forward) continue;
    const std::string_view op = node.op->name();
    if (op == Receive{}.name()) values.push_back(node.out[0]);
    if (op == Send{}.name()) values.push_back(node.in[0]);
    if (op == BatchNormStatistics{}.name()) values.insert(values.end(), {node.out[0], node.out[1]});
    if (op == "cross_entropy") values.push_back(node.out[1]);
  }
  std::ranges::sort(values);
  const auto repeats = std::ranges::unique(values);
  values.erase(repeats.begin(), repeats.end());
  std::size_t bytes = 0;
  for (const ValueId id : values) bytes += aligned(program.descs[static_cast<std::size_t>(id)].bytes());
  return bytes;
}

TEST(RecomputedStage, KeepsWhatItReceivedOfEachMicroBatchAndOneSetOfActivations) {
  const NetworkSpec chain = chain_of_convolutions(12);
  for (const PlanConfig& named : {pipeline(2, "gpipe"), pipeline(3, "1f1b"), pipeline(2, "interleaved", 2)}) {
    const PlanConfig plan = cut_as_it_is(chain, named);
    const ParallelModel kept = folded(chain, plan);
    const ParallelModel recomputed = folded(chain, every_stage_recomputes(plan));
    for (int rank = 0; rank < plan.pp; ++rank)
      for (std::size_t chunk = 0; chunk < kept.chunks(rank).size(); ++chunk) {
        SCOPED_TRACE(plan.schedule + " stage " + std::to_string(rank) + " chunk " + std::to_string(chunk));
        const Program& before = kept.chunks(rank)[chunk]->training().program();
        const Program& program = recomputed.chunks(rank)[chunk]->training().program();
        const auto slots = static_cast<std::size_t>(program.memory.slots);
        EXPECT_EQ(program.memory.bytes(Region::kept), slots * slot_bytes(program));
        const std::size_t one_set = before.memory.bytes(Region::kept) / slots;
        EXPECT_LE(program.memory.bytes(Region::arena), before.memory.bytes(Region::arena) + one_set);
        if (slots > 1) {
          EXPECT_LT(program.memory.total_bytes(), before.memory.total_bytes());
        }
      }
  }
}

// Where pooling leaves a small value behind, that is kept, and not the large one that was received.
TEST(RecomputedStage, NeverKeepsMoreThanAStageThatDoesNotRecompute) {
  for (const auto& make : {small_vgg, small_resnet, odd_network, small_tutorial})
    for (const PlanConfig& named : {pipeline(2, "gpipe"), pipeline(3, "1f1b"), pipeline(2, "interleaved", 2)}) {
      const PlanConfig plan = cut_as_it_is(make(), named);
      const ParallelModel kept = folded(make(), plan);
      const ParallelModel recomputed = folded(make(), every_stage_recomputes(plan));
      for (int rank = 0; rank < plan.pp; ++rank)
        for (std::size_t chunk = 0; chunk < kept.chunks(rank).size(); ++chunk) {
          SCOPED_TRACE(plan.schedule + " stage " + std::to_string(rank) + " chunk " + std::to_string(chunk));
          const MemoryPlan& before = kept.chunks(rank)[chunk]->training().program().memory;
          const Program& program = recomputed.chunks(rank)[chunk]->training().program();
          const auto slots = static_cast<std::size_t>(before.slots);
          EXPECT_LE(program.memory.bytes(Region::kept), before.bytes(Region::kept));
          EXPECT_LE(program.memory.bytes(Region::kept), slots * slot_bytes(program));
        }
    }
}

}  // namespace
}  // namespace trifold::test::recompute_stage
