// One model, however it is folded: every plan gives the losses, the gradients and the weights of one rank.
#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "core/error.h"
#include "kernels/ops/collective.h"
#include "runtime/train/model_options.h"
#include "runtime/train/parallel_model.h"
#include "support/folding.h"
#include "support/networks.h"
#include "support/schedules.h"

namespace trifold::test {
namespace {

struct NamedPlan {
  std::string name;
  PlanConfig plan;
  std::int64_t accumulate = 1;
};

PlanConfig pipeline(std::int64_t stages, const std::string& schedule, std::int64_t chunks = 1) {
  return {.pp = stages, .schedule = schedule, .micro_batches = 4, .chunks = chunks};
}

PlanConfig by(const std::string& split) {
  // The classifiers have 5 or 10 outputs, which do not divide.
  return {.tp = 2, .split = {{"*", "none"}, {"*conv[0-9]*", split}, {"pw*", split}, {"fc1", split}}};
}

// Images by rows: 2 ranks have equal parts of most, 3 of few.
PlanConfig rows(std::int64_t ranks) {
  return {.tp = ranks, .split = {{"*", "rows"}}};
}

// Linear layers on a grid of 2 x 2; what comes before them whole.
PlanConfig blocks() {
  return {.tp = 4, .split = {{"*", "none"}, {"fc1", "blocks"}}};
}

PlanConfig recomputing(PlanConfig plan) {
  plan.recompute.all = true;
  return plan;
}

std::vector<NamedPlan> plans() {
  std::vector<NamedPlan> list = {
      {"dp2", {.dp = 2}},
      {"dp4", {.dp = 4}},
      {"dp2_accumulate", {.dp = 2}, 2},
      {"tp2_auto", {.tp = 2}},
      {"tp2_in", by("in_channels")},
      {"tp2_out", by("out_channels")},
      {"tp2_rows", rows(2)},
      {"tp3_rows", rows(3)},
      {"tp4_rows", rows(4)},
      {"tp4_blocks", blocks()},
      {"pp2_1f1b_recompute", recomputing(pipeline(2, "1f1b"))},
      {"pp3_gpipe_recompute", recomputing(pipeline(3, "gpipe"))},
      {"pp3_zero_bubble_recompute", recomputing(pipeline(3, "zero-bubble"))},
      {"pp2_interleaved_recompute", recomputing(pipeline(2, "interleaved", 2))},
      {"dp2_tp2_pp2_recompute", recomputing({.dp = 2, .tp = 2, .pp = 2, .micro_batches = 2})},
      {"dp2_pp2_zero3_recompute", recomputing({.dp = 2, .pp = 2, .micro_batches = 2, .zero = 3, .bucket_bytes = 2000})},
      {"dp2_buckets", {.dp = 2, .bucket_bytes = 2000}},
      {"dp2_tp2_buckets", {.dp = 2, .tp = 2, .bucket_bytes = 2000}},
      {"dp2_zero1", {.dp = 2, .zero = 1, .bucket_bytes = 2000}},
      {"dp4_zero2", {.dp = 4, .zero = 2, .bucket_bytes = 2000}},
      {"dp2_zero2_accumulate", {.dp = 2, .zero = 2}, 2},
      {"dp2_zero3", {.dp = 2, .zero = 3, .bucket_bytes = 2000}},
      {"dp4_zero3_accumulate", {.dp = 4, .zero = 3, .bucket_bytes = 2000}, 2},
      {"dp2_tp2_zero3", {.dp = 2, .tp = 2, .zero = 3, .bucket_bytes = 2000}},
      {"dp2_pp2_zero1", {.dp = 2, .pp = 2, .micro_batches = 2, .zero = 1, .bucket_bytes = 2000}},
      {"dp2_pp2_zero2", {.dp = 2, .pp = 2, .schedule = "zero-bubble", .micro_batches = 2, .zero = 2}},
      {"dp2_pp2_zero3", {.dp = 2, .pp = 2, .micro_batches = 2, .zero = 3, .bucket_bytes = 2000}},
      {"dp2_tp2", {.dp = 2, .tp = 2}},
      {"dp2_tp2_rows", {.dp = 2, .tp = 2, .split = {{"*", "rows"}}}},
      {"tp2_pp2_rows", {.tp = 2, .pp = 2, .schedule = "zero-bubble", .micro_batches = 4, .split = {{"*", "rows"}}}},
      {"dp2_pp2", {.dp = 2, .pp = 2, .micro_batches = 2}},
      {"tp2_pp2", {.tp = 2, .pp = 2, .micro_batches = 4}},
      {"dp2_tp2_pp2", {.dp = 2, .tp = 2, .pp = 2, .schedule = "zero-bubble", .micro_batches = 2}}};
  for (const std::int64_t stages : {2, 3, 4})
    for (const PlanConfig& plan : folding_plans_of_schedules(stages)) list.push_back({test_name(plan), plan});
  return list;
}

struct NamedNetwork {
  std::string name;
  NetworkSpec (*make)();
};

const std::vector<NamedNetwork> kNetworks = {{"tutorial", small_tutorial},
                                             {"resnet", small_resnet},
                                             {"mobilenet", small_mobilenet},
                                             {"concat", odd_network},
                                             {"vgg", small_vgg}};

double largest(const std::vector<float>& values) {
  double found = 0;
  for (const float value : values) found = std::max<double>(found, std::abs(value));
  return found;
}

void expect_losses_near(const FoldRun& run, const FoldRun& single, double tolerance) {
  ASSERT_EQ(run.losses.size(), single.losses.size());
  for (std::size_t i = 0; i < run.losses.size(); ++i)
    EXPECT_NEAR(run.losses[i], single.losses[i], tolerance * std::abs(single.losses[i])) << "step " << i;
}

class Fold : public ::testing::TestWithParam<std::tuple<NamedNetwork, NamedPlan>> {
 protected:
  const NamedNetwork& net() const { return std::get<0>(GetParam()); }
  const NamedPlan& named() const { return std::get<1>(GetParam()); }

  FoldOptions options() const {
    FoldOptions given;
    given.accumulate = named().accumulate;
    given.optimizer.momentum = 0.9;
    return given;
  }
  // What one rank makes of the network, once for all plans.
  const FoldRun& single(const FoldOptions& given) const {
    static std::map<std::tuple<std::string, std::int64_t, int, double, double>, FoldRun> runs;
    const auto [run, is_new] = runs.try_emplace(
        {net().name, given.accumulate, given.steps, given.learning_rate, given.optimizer.momentum}, FoldRun{});
    if (is_new) run->second = run_fold(net().make(), {}, given);
    return run->second;
  }
  // Splits by name fit a network or they do not: refusals have a test of their own.
  bool fits() const {
    try {
      ParallelModel model(fold_job(net().make(), named().plan, options()));
      return true;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("plan."), std::string::npos) << error.what();
      return false;
    }
  }
};

TEST_P(Fold, HasTheLossesOfOneRank) {
  if (!fits()) GTEST_SKIP() << "no such split of this network";
  const FoldRun folded = run_fold(net().make(), named().plan, options());
  expect_losses_near(folded, single(options()), 1e-4);
  const FoldRun again = run_fold(net().make(), named().plan, options());
  EXPECT_EQ(folded.losses, again.losses) << "two runs of one plan";
  EXPECT_EQ(folded.parameters, again.parameters) << "two runs of one plan";
}

// A step of plain descent at rate 1 from the same weights: what moved is the gradient.
TEST_P(Fold, HasTheGradientsOfOneRank) {
  if (!fits()) GTEST_SKIP() << "no such split of this network";
  FoldOptions one_step = options();
  one_step.steps = 1;
  one_step.learning_rate = 1;
  one_step.optimizer.momentum = 0;
  FoldOptions no_step = one_step;
  no_step.learning_rate = 0;
  const FoldRun& start = single(no_step);
  const FoldRun& moved = single(one_step);
  const FoldRun folded = run_fold(net().make(), named().plan, one_step);
  ASSERT_EQ(folded.parameters.size(), moved.parameters.size());
  for (const auto& [name, values] : moved.parameters) {
    if (name.find("running") != std::string::npos) continue;  // not moved by gradients
    std::vector<float> gradient, difference;
    const std::vector<float>& other = folded.parameters.at(name);
    ASSERT_EQ(other.size(), values.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      gradient.push_back(values[i] - start.parameters.at(name)[i]);
      difference.push_back(values[i] - other[i]);
    }
    // A bias before batch norm has no gradient but rounding's.
    EXPECT_LE(largest(difference), 1e-4 * std::max(largest(gradient), 1e-3)) << name;
  }
}

TEST_P(Fold, MovesRunningAveragesAsOneRank) {
  if (!fits()) GTEST_SKIP() << "no such split of this network";
  FoldOptions few = options();
  few.steps = 2;
  const FoldRun folded = run_fold(net().make(), named().plan, few);
  for (const auto& [name, values] : single(few).parameters) {
    if (name.find("running") == std::string::npos) continue;
    const std::vector<float>& other = folded.parameters.at(name);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(other[i], values[i], 1e-4 * std::max(largest(values), 1e-2)) << name << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, Fold, ::testing::Combine(::testing::ValuesIn(kNetworks), ::testing::ValuesIn(plans())),
                         [](const auto& each) {
                           return std::get<0>(each.param).name + "_" + std::get<1>(each.param).name;
                         });

// Groups of batch norm that lie on several replicas.
TEST(FoldedBatchNorm, GroupsMaySpanReplicas) {
  for (const std::int64_t group : {8, 16}) {
    FoldOptions options;
    options.bn_group = group;
    const FoldRun single = run_fold(small_resnet(), {}, options);
    for (const std::int64_t replicas : {2, 4}) {
      const FoldRun folded = run_fold(small_resnet(), {.dp = replicas}, options);
      expect_losses_near(folded, single, 1e-4);
    }
  }
}

// --- buckets

// Sums of gradients, in order: 's' begun aside, 'j' joined, 'a' made at once.
std::string sums_of(const ParallelModel& model) {
  std::string order;
  for (const Node& node : model.chunks(0).front()->training().program().graph.nodes) {
    if (node.layer >= 0) continue;  // a layer's are batch norm's
    if (const auto* sum = dynamic_cast<const AllReduce*>(node.op.get())) order += sum->aside ? 's' : 'a';
    if (node.op->name() == JoinSums{}.name()) order += 'j';
  }
  return order;
}

TEST(FoldedBuckets, AreAddedUpAsideWhereTheJobNamesTheirSize) {
  EXPECT_EQ(sums_of(ParallelModel(fold_job(small_vgg(), {.dp = 2}, {}))), "a");
  const std::string order = sums_of(ParallelModel(fold_job(small_vgg(), {.dp = 2, .bucket_bytes = 2000}, {})));
  EXPECT_GT(order.size(), 4U);
  EXPECT_EQ(order, std::string(order.size() - 1, 's') + 'j');
  FoldOptions accumulates;
  accumulates.accumulate = 2;
  EXPECT_EQ(sums_of(ParallelModel(fold_job(small_vgg(), {.dp = 2, .bucket_bytes = 2000}, accumulates))), "a")
      << "a micro-batch's gradients are not the update's";
}

// Sums are made number by number in the order of ranks, however many are sent together. Groups of batch norm that lie
// on several replicas are added up while others are under way.
TEST(FoldedBuckets, GiveTheBitsOfOneSum) {
  for (const std::int64_t group : {4, 16})
    for (const auto& make : {small_vgg, small_resnet})
      for (const std::int64_t replicas : {2, 4}) {
        FoldOptions options;
        options.bn_group = group;
        options.optimizer.momentum = 0.9;
        options.optimizer.clip_norm = 0.5;
        const FoldRun whole = run_fold(make(), {.dp = replicas}, options);
        const FoldRun buckets = run_fold(make(), {.dp = replicas, .bucket_bytes = 2000}, options);
        EXPECT_EQ(buckets.losses, whole.losses);
        EXPECT_TRUE(buckets.parameters == whole.parameters);
      }
}

// Values go between rows, channels and whole, each way.
TEST(FoldedRows, MeetOtherSplits) {
  const FoldRun single = run_fold(small_tutorial(), {}, {});
  const std::vector<std::vector<TensorSplit>> mixtures = {
      {{"*", "none"}, {"conv2", "rows"}},
      {{"*", "none"}, {"conv1", "rows"}},
      {{"*", "none"}, {"conv1", "rows"}, {"conv2", "out_channels"}},
      {{"*", "none"}, {"conv1", "out_channels"}, {"conv2", "rows"}},
      {{"*", "none"}, {"conv1", "rows"}, {"conv2", "in_channels"}, {"fc1", "out_channels"}},
      {{"conv1", "rows"}}};
  for (const std::vector<TensorSplit>& split : mixtures) {
    SCOPED_TRACE(split.back().match + " by " + split.back().by);
    expect_losses_near(run_fold(small_tutorial(), {.tp = 2, .split = split}, {}), single, 1e-4);
  }
}

// Windows whose padding, stride and dilation leave ranks with other rows than they had; a maximum whose padding is no
// zero, and a mean that does not count it; channels that no block divides.
TEST(FoldedRows, TakeAnyWindow) {
  const auto window = [](std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                         std::int64_t dilation) {
    return std::vector<std::pair<std::string, FieldValue>>{{"out", out},
                                                           {"kernel", Pair{kernel, 3}},
                                                           {"stride", Pair{stride, 1}},
                                                           {"pad", Pair{pad, 1}},
                                                           {"dilation", Pair{dilation, 1}}};
  };
  const NetworkSpec odd =
      network({3, 23, 6}, 4,
              {{"conv1", "conv2d", {}, window(6, 5, 1, 4, 2)},
               {"tanh1", "tanh"},
               {"max", "max_pool", {}, {{"kernel", Pair{3, 3}}, {"stride", Pair{2, 1}}, {"pad", Pair{1, 1}}}},
               {"conv2", "conv2d", {}, window(16, 2, 1, 1, 1)},
               {"bn2", "batch_norm"},
               {"drop", "dropout", {}, {{"p", 0.3}}},
               {"conv3", "conv2d", {}, window(8, 1, 2, 0, 1)},
               {"mean", "avg_pool", {}, {{"kernel", Pair{3, 2}}, {"stride", Pair{1, 2}}, {"pad", Pair{1, 0}}}},
               {"inside",
                "avg_pool",
                {},
                {{"kernel", Pair{4, 3}}, {"stride", Pair{1, 1}}, {"pad", Pair{2, 1}}, {"count_pad", false}}},
               {"drop2", "dropout2d", {}, {{"p", 0.3}}},
               {"pool", "global_avg_pool"},
               {"fc", "linear", {}, {{"out", std::int64_t{4}}}}});
  const FoldRun single = run_fold(odd, {}, {});
  for (const std::int64_t ranks : {2, 3, 5}) {
    SCOPED_TRACE(ranks);
    expect_losses_near(run_fold(odd, rows(ranks), {}), single, 1e-4);
  }
}

// Layers in blocks one after the other, with activations between them; replicas and stages around them.
TEST(FoldedBlocks, FollowEachOther) {
  FoldOptions options;
  options.optimizer.momentum = 0.9;
  const FoldRun single = run_fold(small_lenet(), {}, options);
  const std::vector<TensorSplit> chain = {{"*", "none"}, {"fc*", "blocks"}};
  const std::vector<TensorSplit> mixed = {
      {"*", "rows"}, {"pool2", "none"}, {"fc1", "out_channels"}, {"fc2", "blocks"}, {"fc3", "none"}};
  for (const PlanConfig& plan :
       {PlanConfig{.tp = 4, .split = chain}, PlanConfig{.dp = 2, .tp = 4, .split = chain},
        PlanConfig{.tp = 4, .pp = 2, .schedule = "zero-bubble", .micro_batches = 4, .split = chain},
        PlanConfig{.tp = 4, .split = mixed}}) {
    SCOPED_TRACE(to_string(Mesh{static_cast<int>(plan.dp), static_cast<int>(plan.pp), 4}));
    expect_losses_near(run_fold(small_lenet(), plan, options), single, 1e-4);
  }
  expect_losses_near(run_fold_in_turns(small_lenet(), {.tp = 4, .split = chain}, {}, options), single, 1e-4);
  expect_losses_near(run_fold_in_turns(small_lenet(), {.tp = 2}, {.tp = 4, .split = chain}, options), single, 1e-4);
}

// A checkpoint holds whole tensors: what ranks had in rows others take in channels, and one rank whole.
TEST(FoldedCheckpoint, OfOnePlanLoadsInAnother) {
  FoldOptions options;
  options.optimizer.momentum = 0.9;
  for (const auto& make : {small_tutorial, small_resnet}) {
    const FoldRun single = run_fold(make(), {}, options);
    const PlanConfig channels{.tp = 2};
    const std::vector<std::pair<PlanConfig, PlanConfig>> turns = {
        {rows(2), {}}, {{}, rows(3)}, {rows(4), channels}, {channels, rows(2)}, {channels, {}}};
    for (const auto& [first, then] : turns)
      expect_losses_near(run_fold_in_turns(make(), first, then, options), single, 1e-4);
  }
}

TEST(FoldedPrecision, Bf16FollowsOneRank) {
  FoldOptions options;
  options.precision = DType::bf16;
  options.steps = 10;
  const FoldRun single = run_fold(small_tutorial(), {}, options);
  for (const PlanConfig& plan :
       {PlanConfig{.dp = 2}, PlanConfig{.tp = 2}, rows(2), PlanConfig{.pp = 2, .micro_batches = 4},
        PlanConfig{.dp = 2, .zero = 3, .bucket_bytes = 2000},
        PlanConfig{.dp = 2, .tp = 2, .pp = 2, .micro_batches = 2}})
    // Sums in another order round to other numbers of 8 bits, 4e-3 apart; ten steps of training add some of them up.
    expect_losses_near(run_fold(small_tutorial(), plan, options), single, 1e-2);
}

// What an optimiser must know of all gradients, it learns from ranks that have parts of them.
const std::vector<PlanConfig> kDividedPlans = {
    {.tp = 2},
    {.pp = 2, .micro_batches = 4},
    {.dp = 2, .zero = 1, .bucket_bytes = 2000},
    {.dp = 2, .zero = 3, .bucket_bytes = 2000},
    {.dp = 2, .tp = 2, .pp = 2, .micro_batches = 2, .zero = 2, .bucket_bytes = 2000}};

TEST(FoldedOptimizer, ClipsByTheNormOfAllGradients) {
  FoldOptions options;
  options.learning_rate = 1;  // the norm is 1.3 at first: without clipping this runs away
  options.optimizer.clip_norm = 0.05;
  const FoldRun single = run_fold(small_tutorial(), {}, options);
  for (const PlanConfig& plan : kDividedPlans)
    expect_losses_near(run_fold(small_tutorial(), plan, options), single, 1e-4);
}

// The ranks of a grid's column have the same part of the bias; with few inputs it is much of the norm.
TEST(FoldedOptimizer, CountsTheBiasOfALayerInBlocksOnce) {
  const NetworkSpec spec = network({1, 2, 2}, 4,
                                   {{"flat", "flatten"},
                                    {"fc1", "linear", {}, {{"out", std::int64_t{8}}}},
                                    {"tanh", "tanh"},
                                    {"fc2", "linear", {}, {{"out", std::int64_t{4}}}}});
  FoldOptions options;
  options.learning_rate = 1;
  options.optimizer.clip_norm = 0.05;
  const FoldRun single = run_fold(spec, {}, options);
  const FoldRun blocks = run_fold(spec, {.tp = 4, .split = {{"fc1", "blocks"}, {"fc2", "blocks"}}}, options);
  expect_losses_near(blocks, single, 1e-5);
}

TEST(FoldedOptimizer, SkipsTheSameUpdatesWithALossScaleTooLarge) {
  FoldOptions options;
  options.precision = DType::f16;
  options.steps = 8;
  options.loss_scale = 4e6;  // f16 ends at 65504
  const FoldRun single = run_fold(small_tutorial(), {}, options);
  const std::vector<float>& scale = single.parameters.at("optimizer.loss_scale");
  ASSERT_GT(scale[2], 0) << "updates skipped";
  ASSERT_LT(scale[2], 8) << "updates skipped";
  for (const PlanConfig& plan : kDividedPlans) {
    const FoldRun run = run_fold(small_tutorial(), plan, options);
    EXPECT_EQ(run.parameters.at("optimizer.loss_scale"), scale);
    // f16 rounds sums of another order to numbers 5e-4 apart.
    expect_losses_near(run, single, 2e-3);
  }
}

// --- stages

std::vector<int> stages_of(const Job& job) {
  return ParallelModel(job).plan().layers_of_part;
}

TEST(FoldedStages, AreCutWhereThePlanSays) {
  const PlanConfig plan{.pp = 3, .micro_batches = 4, .cut_after = {"relu1", "flat"}};
  EXPECT_EQ(stages_of(fold_job(small_vgg(), plan, {})), (std::vector<int>{2, 5, 4}));
  expect_losses_near(run_fold(small_vgg(), plan, {}), run_fold(small_vgg(), {}, {}), 1e-4);
}

TEST(FoldedStages, MayBeBalancedByMeasuredTimes) {
  const PlanConfig plan{.pp = 2, .micro_batches = 4, .measures_stages = true};
  expect_losses_near(run_fold(small_resnet(), plan, {}), run_fold(small_resnet(), {}, {}), 1e-4);
}

// The layers that keep most are not the slowest: as the limit sinks, the first stage has to give layers away.
TEST(FoldedStages, StayWithinTheMemoryLimit) {
  Job job = fold_job(small_vgg(), {.pp = 2, .schedule = "gpipe", .micro_batches = 8}, {});
  job.train.batch = 4096;
  const auto stages = [&](std::int64_t limit) {
    job.train.memory_limit_bytes = limit;
    return make_parallel_plan(job, model_options(job)).layers_of_part;
  };
  const std::vector<int> fastest = stages(std::int64_t{1} << 40);
  std::vector<int> leaner = fastest;
  for (std::int64_t limit = 1 << 30; limit > 1 << 20 && leaner == fastest; limit = limit * 9 / 10)
    leaner = stages(limit);
  EXPECT_NE(leaner, fastest);
  job.train.memory_limit_bytes = 1000;
  EXPECT_THROW(ParallelModel{job}, Error);
}

// What NCCL relies on: on a route both sides have the messages in one order, after all that the compiler does.
TEST(FoldedPipeline, MessagesOfARouteAreReceivedInTheOrderTheyAreSent) {
  for (const NamedNetwork& net : kNetworks) {
    for (const PlanConfig& plan : {pipeline(2, "1f1b"), pipeline(3, "zero-bubble"), pipeline(4, "gpipe"),
                                   pipeline(2, "interleaved", 2), pipeline(2, "interleaved", 4)}) {
      SCOPED_TRACE(net.name + " " + plan.schedule + " " + std::to_string(plan.pp * plan.chunks));
      ParallelModel model(fold_job(net.make(), plan, {}));
      std::map<int, std::vector<int>> sent, received;  // tags by route
      for (int rank = 0; rank < plan.pp; ++rank)
        for (const auto& chunk : model.chunks(rank))
          for (const Node& node : chunk->training().program().graph.nodes)
            if (const auto* message = dynamic_cast<const StageMessage*>(node.op.get()))
              (node.out.empty() ? sent : received)[message->route].push_back(message->tag);
      EXPECT_FALSE(sent.empty());
      EXPECT_EQ(sent, received);
    }
  }
}

}  // namespace
}  // namespace trifold::test
