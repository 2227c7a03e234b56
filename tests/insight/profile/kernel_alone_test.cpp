// Kernels that are run by themselves between steps, and the steps, which must not notice.
#include "insight/profile/kernel_alone.h"

#include <gtest/gtest.h>

#include "insight/profile/profile.h"
#include "support/folding.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

TEST(KernelsAlone, LeaveTrainingAsItIs) {
  for (const PlanConfig& plan : {PlanConfig{}, PlanConfig{.pp = 2, .micro_batches = 4}}) {
    const Job job = fold_job(small_tutorial(), plan, {});
    constexpr int kSteps = 4;
    const std::vector<double> undisturbed = run_fold(job, kSteps, 0.02).losses;
    ParallelModel model(job);
    model.initialize(3);
    KernelsAlone alone(model.plan().threads);
    for (int step = 0; step < kSteps; ++step) {
      EXPECT_EQ(step_fold(model, job, step, 0.02), undisturbed[static_cast<std::size_t>(step)]) << step;
      if (step + 1 == kSteps) break;  // no step would show it
      for (int rank = 0; rank < model.plan().mesh.size(); ++rank)
        for (const auto& chunk : model.chunks(rank)) alone.run(chunk->training());
    }
  }
}

TEST(KernelsAlone, TimeEveryProductAndNothingElse) {
  const Job job = fold_job(small_tutorial(), {}, {});
  ParallelModel model(job);
  KernelsAlone alone(model.plan().threads);
  Executable& training = model.chunks(0).front()->training();
  alone.run(training);
  const Program& program = training.program();
  int products = 0;
  for (std::size_t i = 0; i < program.graph.nodes.size(); ++i) {
    if (!program.kernels[i]) continue;
    const std::string name(program.graph.nodes[i].op->name());
    const bool product = name.starts_with("conv2d") || name.starts_with("linear");
    EXPECT_EQ(alone.seconds(program, i) > 0, product) << name;
    products += product ? 1 : 0;
  }
  EXPECT_GE(products, 10) << "two convolutions and two linear layers, three passes each but the first";
}

TEST(KernelsAlone, RowsPutTogetherKeepThem) {
  ProfileRow a{.name = "conv2d.forward", .calls = 2, .median_ms = 2, .flops = 8e6, .alone_ms = 1};
  ProfileRow b{.name = "conv2d.forward", .calls = 6, .median_ms = 4, .flops = 24e6, .alone_ms = 3};
  const ProfileRow sum = grouped({a, b}, ProfileGroup::kernel, ProfileSort::total).front();
  EXPECT_DOUBLE_EQ(sum.median_ms, 3.5);
  EXPECT_DOUBLE_EQ(sum.alone_ms, 2.5);
  EXPECT_DOUBLE_EQ(sum.alone_gflops(), 32e6 / 8 / 2.5 / 1e6);
  b.alone_ms = 0;
  EXPECT_EQ(grouped({a, b}, ProfileGroup::kernel, ProfileSort::total).front().alone_ms, 0) << "not of all of them";
}

}  // namespace
}  // namespace trifold::test
