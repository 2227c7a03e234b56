// Replicas that agree otherwise than by the exact sum of their gradients.
#include <cmath>

#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/train/parallel_model.h"
#include "support/folding.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

using Kind = GradientSync::Kind;

FoldOptions options() {
  FoldOptions given;
  given.optimizer.momentum = 0.9;
  return given;
}

FoldRun run_with(const GradientSync& sync, std::int64_t replicas = 2) {
  return run_fold(small_tutorial(), {.dp = replicas, .sync = sync}, options());
}

double farthest(const FoldRun& run, const FoldRun& single) {
  double most = 0;
  for (std::size_t i = 0; i < single.losses.size(); ++i)
    most = std::max(most, std::abs(run.losses[i] / single.losses[i] - 1));
  return most;
}

TEST(Sync, IsTheSameInEveryRun) {
  for (const GradientSync& sync :
       {GradientSync{.wire = DType::bf16}, GradientSync{.kind = Kind::topk, .keep = 0.1},
        GradientSync{.kind = Kind::powersgd}, GradientSync{.kind = Kind::local_sgd, .period = 3}}) {
    const FoldRun first = run_with(sync);
    const FoldRun second = run_with(sync);
    EXPECT_EQ(first.losses, second.losses);
    EXPECT_EQ(first.parameters, second.parameters);
  }
}

TEST(Sync, In16BitsStaysNearTheExactSum) {
  const FoldRun single = run_fold(small_tutorial(), {}, options());
  // A gradient is off by half a unit of the wire's type twice; twenty steps add some of them up.
  EXPECT_LT(farthest(run_with({.wire = DType::f16}), single), 1e-3);
  EXPECT_LT(farthest(run_with({.wire = DType::bf16}), single), 8e-3);
  EXPECT_GT(farthest(run_with({.wire = DType::bf16}), single), 1e-6) << "it was sent in 16 bits";
}

TEST(Sync, TopKOfAllGradientsIsTheExactSum) {
  const FoldRun single = run_fold(small_tutorial(), {}, options());
  EXPECT_LT(farthest(run_with({.kind = Kind::topk, .keep = 1}), single), 1e-4);
}

// The same batch again and again: whatever a step leaves unsaid, later ones say.
TEST(Sync, CompressedGradientsLearnAsTheExactOnesDo) {
  const auto last_loss = [](const GradientSync& sync) {
    FoldOptions given;
    given.steps = 60;
    const Job job = fold_job(small_tutorial(), {.dp = 2, .sync = sync}, given);
    ParallelModel model(job);
    model.initialize(3);
    double loss = 0;
    for (int epoch = 0; epoch < 60; ++epoch) loss = train_fold(model, job, 1, 0.1).back();
    return loss;
  };
  const double exact = last_loss({});
  EXPECT_LT(last_loss({.kind = Kind::topk, .keep = 0.05}), 2 * exact + 0.05);
  EXPECT_LT(last_loss({.kind = Kind::powersgd, .rank = 2}), 2 * exact + 0.05);
}

TEST(LocalSgd, WithAPeriodOfOneIsOneModel) {
  const FoldRun single = run_fold(small_tutorial(), {}, options());
  for (const std::int64_t replicas : {2, 4})
    EXPECT_LT(farthest(run_with({.kind = Kind::local_sgd, .period = 1}, replicas), single), 1e-4);
}

TEST(LocalSgd, MeetsEveryPeriod) {
  const FoldRun single = run_fold(small_tutorial(), {}, options());
  const FoldRun local = run_with({.kind = Kind::local_sgd, .period = 5});
  EXPECT_GT(farthest(local, single), 1e-4) << "replicas went their own ways";
  EXPECT_LT(farthest(local, single), 0.2) << "but not far";
}

TEST(LocalSgd, NormalizesOnOneReplicaOnly) {
  FoldOptions given;
  given.bn_group = 16;
  try {
    ParallelModel model(fold_job(small_resnet(), {.dp = 2, .sync = {.kind = Kind::local_sgd}}, given));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the largest group that works is 8"), std::string::npos) << error.what();
  }
  given.bn_group = 8;
  const FoldRun single = run_fold(small_resnet(), {}, given);
  const FoldRun local = run_fold(small_resnet(), {.dp = 2, .sync = {.kind = Kind::local_sgd, .period = 1}}, given);
  EXPECT_LT(farthest(local, single), 1e-4);
}

}  // namespace
}  // namespace trifold::test
