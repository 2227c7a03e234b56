// One model, however it is folded over GPUs: every plan gives the losses and weights of one GPU and of CPU ranks, the
// same bits when it runs twice and when its steps are recorded, and nothing that the simulator would report.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "core/error.h"
#include "gpusim/include/gpusim_client.h"
#include "kernels/ops/collective.h"
#include "runtime/train/parallel_model.h"
#include "support/folding.h"
#include "support/networks.h"
#include "support/schedules.h"

namespace trifold::test {
namespace {

struct NamedPlan {
  std::string name;
  PlanConfig plan;
};
void PrintTo(const NamedPlan& plan, std::ostream* out) {
  *out << plan.name;
}

// Images by rows: 2 and 3 ranks have equal parts of them, 4 have not.
PlanConfig rows(std::int64_t ranks) {
  return {.tp = ranks, .split = {{"*", "rows"}}};
}

std::vector<NamedPlan> plans() {
  std::vector<NamedPlan> list = {
      {"dp2", {.dp = 2}},
      {"dp4", {.dp = 4}},
      {"dp2_in_buckets", {.dp = 2, .bucket_bytes = 300}},
      {"tp2", {.tp = 2}},
      {"tp2_rows", rows(2)},
      {"tp3_rows", rows(3)},
      {"tp4_rows", rows(4)},
      {"tp4_blocks", {.tp = 4, .split = {{"*", "none"}, {"fc", "blocks"}}}},
      {"pp4_1f1b", {.pp = 4, .micro_batches = 4}},
      {"dp2_tp2", {.dp = 2, .tp = 2}},
      {"dp2_pp2", {.dp = 2, .pp = 2, .micro_batches = 2}},
      {"tp2_pp2", {.tp = 2, .pp = 2, .micro_batches = 4}},
      {"dp2_tp2_rows", {.dp = 2, .tp = 2, .split = {{"*", "rows"}}}},
      {"tp2_pp2_rows", {.tp = 2, .pp = 2, .micro_batches = 4, .split = {{"*", "rows"}}}},
      {"dp2_zero1", {.dp = 2, .zero = 1, .bucket_bytes = 300}},
      {"dp2_zero2", {.dp = 2, .zero = 2, .bucket_bytes = 300}},
      {"dp2_pp2_zero3", {.dp = 2, .pp = 2, .micro_batches = 2, .zero = 3, .bucket_bytes = 300}}};
  for (const PlanConfig& plan : folding_plans_of_schedules(2)) list.push_back({test_name(plan), plan});
  return list;
}

std::vector<std::pair<std::string, FieldValue>> conv3x3(std::int64_t out) {
  return {{"out", out}, {"kernel", Pair{3, 3}}, {"pad", Pair{1, 1}}, {"bias", false}};
}

// Convolutions, batch norm, a skip that crosses stages, dropout. Small: the simulator takes its time.
NetworkSpec skipping_network() {
  return network({2, 6, 6}, 4,
                 {{"conv0", "conv2d", {}, conv3x3(4)},
                  {"bn0", "batch_norm"},
                  {"relu0", "relu"},
                  {"conv1", "conv2d", {}, conv3x3(4)},
                  {"bn1", "batch_norm"},
                  {"add", "add", {"bn1", "relu0"}},
                  {"relu1", "relu"},
                  {"pool", "global_avg_pool"},
                  {"drop", "dropout", {}, {{"p", 0.2}}},
                  {"fc", "linear", {}, {{"out", std::int64_t{4}}}}});
}

FoldOptions options_on(const std::string& device) {
  FoldOptions options;
  options.bn_group = 2;
  options.steps = 5;
  options.optimizer.momentum = 0.9;
  options.device = device;
  return options;
}

void expect_near(const FoldRun& run, const FoldRun& other) {
  ASSERT_EQ(run.losses.size(), other.losses.size());
  for (std::size_t i = 0; i < run.losses.size(); ++i)
    EXPECT_NEAR(run.losses[i], other.losses[i], 1e-4 * std::abs(other.losses[i])) << "step " << i;
  ASSERT_EQ(run.parameters.size(), other.parameters.size());
  for (const auto& [name, values] : other.parameters) {
    const std::vector<float>& mine = run.parameters.at(name);
    ASSERT_EQ(mine.size(), values.size()) << name;
    double largest = 1e-2;
    for (const float value : values) largest = std::max<double>(largest, std::abs(value));
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(mine[i], values[i], 1e-4 * largest) << name << " " << i;
  }
}

class CudaFold : public ::testing::TestWithParam<NamedPlan> {
 protected:
  void SetUp() override { gpusim_client::set_order("lazy"); }
  void TearDown() override { gpusim_client::set_order("lazy"); }

  static FoldRun run(const PlanConfig& plan, const FoldOptions& options) {
    return run_fold(skipping_network(), plan, options);
  }
};

TEST_P(CudaFold, HasTheLossesOfOneGpuAndOfCpuRanks) {
  static const FoldRun single = run({}, options_on("cuda"));
  const FoldRun folded = run(GetParam().plan, options_on("cuda"));
  expect_near(folded, single);
  expect_near(folded, run(GetParam().plan, options_on("cpu")));
}

TEST_P(CudaFold, GivesTheSameBitsTwiceRecordedOrNot) {
  FoldOptions options = options_on("cuda");
  options.steps = 4;
  const FoldRun recorded = run(GetParam().plan, options);
  options.graphs = false;
  gpusim_client::set_order("eager");
  const FoldRun given = run(GetParam().plan, options);
  EXPECT_EQ(recorded.losses, given.losses);
  EXPECT_EQ(recorded.parameters, given.parameters);
}

INSTANTIATE_TEST_SUITE_P(Plans, CudaFold, ::testing::ValuesIn(plans()),
                         [](const auto& each) { return each.param.name; });

// A bucket's gradients are on their way before the first layers' are made, and all are there before the update.
TEST(CudaFoldedGradients, AreAddedUpWhileBackwardWorkGoesOn) {
  ParallelModel model(fold_job(skipping_network(), {.dp = 2, .bucket_bytes = 300}, options_on("cuda")));
  std::string order;
  for (const Node& node : model.chunks(0).front()->training().program().graph.nodes) {
    const auto* sum = dynamic_cast<const AllReduce*>(node.op.get());
    if (sum != nullptr && sum->aside) order += 's';
    if (node.phase == Phase::backward_weight && node.op->name() == "conv2d.backward_weights") order += 'w';
    if (node.op->name() == "join_sums") order += 'j';
    if (node.op->name() == "optimizer.update") order += 'u';
  }
  EXPECT_GE(std::ranges::count(order, 's'), 3) << order;
  EXPECT_LT(order.find('s'), order.rfind('w')) << order;
  EXPECT_TRUE(order.ends_with("sju")) << order;
}

// The norm of all gradients: from stages, replicas and tensor parts that each have some of them.
TEST(CudaFoldedOptimizer, ClipsByTheNormOfAllGradients) {
  FoldOptions options = options_on("cuda");
  options.optimizer.clip_norm = 0.1;
  options.learning_rate = 0.5;
  const FoldRun single = run_fold(skipping_network(), {}, options);
  for (const PlanConfig& plan : {PlanConfig{.pp = 2, .micro_batches = 4}, PlanConfig{.tp = 2},
                                 PlanConfig{.dp = 2, .zero = 2, .bucket_bytes = 300}})
    expect_near(run_fold(skipping_network(), plan, options), single);
}

// Replicas that agree otherwise than by the exact sum: as CPU ranks do, and the same bits recorded or not.
class CudaFoldedSync : public ::testing::TestWithParam<NamedPlan> {};

TEST_P(CudaFoldedSync, FollowsCpuRanks) {
  FoldOptions options = options_on("cuda");
  const FoldRun recorded = run_fold(skipping_network(), GetParam().plan, options);
  expect_near(recorded, run_fold(skipping_network(), GetParam().plan, options_on("cpu")));
  options.graphs = false;
  const FoldRun given = run_fold(skipping_network(), GetParam().plan, options);
  EXPECT_EQ(recorded.losses, given.losses);
  EXPECT_EQ(recorded.parameters, given.parameters);
}

std::vector<NamedPlan> syncs() {
  using Kind = GradientSync::Kind;
  return {{"bf16", {.dp = 2, .sync = {.wire = DType::bf16}}},
          {"fp16", {.dp = 2, .sync = {.wire = DType::f16}}},
          {"topk", {.dp = 2, .sync = {.kind = Kind::topk, .keep = 0.1}}},
          {"powersgd", {.dp = 2, .sync = {.kind = Kind::powersgd, .rank = 1}}},
          {"local_sgd", {.dp = 2, .sync = {.kind = Kind::local_sgd, .period = 2}}}};
}

INSTANTIATE_TEST_SUITE_P(Syncs, CudaFoldedSync, ::testing::ValuesIn(syncs()),
                         [](const auto& each) { return each.param.name; });

// Groups of batch norm that lie on several replicas: sums over a span of them.
TEST(CudaFoldedBatchNorm, GroupsMaySpanReplicas) {
  FoldOptions options = options_on("cuda");
  options.bn_group = 8;
  const FoldRun single = run_fold(skipping_network(), {}, options);
  expect_near(run_fold(skipping_network(), {.dp = 4}, options), single);
}

// Gathered and sent in 16 bits, channels-last on both sides.
TEST(CudaFoldedPrecision, Bf16FollowsOneGpu) {
  FoldOptions options = options_on("cuda");
  options.precision = DType::bf16;
  NetworkSpec wide = network({8, 6, 6}, 4,
                             {{"conv0", "conv2d", {}, conv3x3(16)},
                              {"relu0", "relu"},
                              {"conv1", "conv2d", {}, conv3x3(16)},
                              {"relu1", "relu"},
                              {"pool", "global_avg_pool"},
                              {"fc", "linear", {}, {{"out", std::int64_t{4}}}}});
  const FoldRun single = run_fold(wide, {}, options);
  for (const PlanConfig& plan :
       {PlanConfig{.dp = 2}, PlanConfig{.tp = 2}, rows(3), PlanConfig{.pp = 2, .micro_batches = 4}}) {
    const FoldRun folded = run_fold(wide, plan, options);
    // Sums in another order round to other numbers of 8 bits, 4e-3 apart.
    for (std::size_t i = 0; i < single.losses.size(); ++i)
      EXPECT_NEAR(folded.losses[i], single.losses[i], 1e-2 * single.losses[i]) << "step " << i;
  }
}

TEST(CudaFoldRefusal, SaysHowManyGpusThereAre) {
  try {
    ParallelModel model(fold_job(skipping_network(), {.dp = 8}, options_on("cuda:8")));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_STREQ(error.what(),
                 "plan.device is 'cuda:8' and the plan has 8 ranks, a GPU each, but there are 4 GPUs; --devices cpu "
                 "would work");
  }
}

}  // namespace
}  // namespace trifold::test
