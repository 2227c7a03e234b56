// ZeRO: what replicas keep, what they send, and that nobody sees it from outside. That the losses are one rank's is in
// fold_test.cpp.
#include <filesystem>

#include <gtest/gtest.h>

#include "kernels/ops/collective.h"
#include "runtime/checkpoint/temporary_directory.h"
#include "runtime/train/parallel_model.h"
#include "support/folding.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

constexpr int kReplicas = 4;

FoldOptions with_momentum() {
  FoldOptions options;
  options.optimizer.momentum = 0.9;
  options.steps = 3;
  return options;
}

Job sharded_job(int stage) {
  return fold_job(small_vgg(), {.dp = kReplicas, .zero = stage, .bucket_bytes = 4096}, with_momentum());
}

ParallelModel sharded(int stage) {
  return ParallelModel(sharded_job(stage));
}

const Program& program_of(const ParallelModel& model) {
  return model.chunks(0).front()->training().program();
}

TEST(Zero, KeepsTheStatesPartThatTheFormulasSay) {
  const ParallelModel whole = sharded(0);
  const auto parameters = program_of(whole).memory.bytes(Region::parameters);
  for (const int stage : {1, 2, 3}) {
    const ParallelModel model = sharded(stage);
    const Program& program = program_of(model);
    EXPECT_GT(program.flat.buckets.size(), 3U);
    // Each bucket is rounded up to parts of whole cache lines.
    EXPECT_GE(program.flat.bytes, parameters);
    EXPECT_LE(program.flat.bytes, parameters + program.flat.buckets.size() * 64 * kReplicas);
    const auto bytes = [&](Region region) { return program.memory.bytes(region); };
    const std::size_t all = program.flat.bytes;
    EXPECT_EQ(bytes(Region::optimizer), all / kReplicas);
    EXPECT_EQ(bytes(Region::gradients), stage >= 2 ? all / kReplicas : all);
    EXPECT_EQ(bytes(Region::parameters), stage >= 3 ? all / kReplicas : all);
    EXPECT_LT(program.memory.total_bytes(), program_of(whole).memory.total_bytes());
  }
}

// A ring's: two passes over the parameters, and a third where they are gathered for backward work too.
TEST(Zero, SendsAsMuchAsAnAllReduceUntilParametersAreGatheredTwice) {
  for (const int stage : {0, 1, 2, 3}) {
    const ParallelModel model = sharded(stage);
    const Program& program = program_of(model);
    double sent = 0;
    for (const Node& node : program.graph.nodes) {
      const auto* exchange = dynamic_cast<const Exchange*>(node.op.get());
      if (exchange == nullptr || node.layer >= 0) continue;  // a layer's are batch norm's
      const auto bytes = [&](ValueId id) {
        return static_cast<double>(program.descs[static_cast<std::size_t>(id)].bytes());
      };
      sent += exchange->sent_bytes(bytes(node.in[0]), bytes(node.out[0]), kReplicas);
    }
    // The first layer's weights have no part in backward work: nothing before them wants a gradient.
    const double passes = sent / (0.75 * static_cast<double>(program.flat.bytes));
    if (stage < 3)
      EXPECT_DOUBLE_EQ(passes, 2) << "stage " << stage;
    else
      EXPECT_TRUE(passes > 2.5 && passes <= 3) << passes;
  }
}

// A stage without parameters has no gradients to exchange, but takes part in clipping and moves fp16's loss scale.
TEST(Zero, TrainsStagesWithoutParameters) {
  FoldOptions plain = with_momentum();
  FoldOptions clipped = plain;
  clipped.optimizer.clip_norm = 0.05;
  FoldOptions scaled = plain;
  scaled.precision = DType::f16;
  for (const FoldOptions& options : {plain, clipped, scaled}) {
    const FoldRun single = run_fold(small_vgg(), {}, options);
    for (const int zero : {0, 1, 2, 3}) {
      SCOPED_TRACE(zero);
      const PlanConfig plan{.dp = 2, .pp = 3, .micro_batches = 2, .cut_after = {"conv2", "flat"}, .zero = zero};
      const FoldRun run = run_fold(small_vgg(), plan, options);
      ASSERT_EQ(run.losses.size(), single.losses.size());
      const double tolerance = options.precision == DType::f16 ? 2e-3 : 1e-4;
      for (std::size_t i = 0; i < run.losses.size(); ++i)
        EXPECT_NEAR(run.losses[i], single.losses[i], tolerance * single.losses[i]) << "step " << i;
      EXPECT_EQ(run.parameters.contains("optimizer.loss_scale"), options.precision == DType::f16);
      for (const auto& [name, values] : single.parameters)
        if (name == "optimizer.loss_scale") {
          EXPECT_EQ(run.parameters.at(name), values);
        }
    }
  }
}

TEST(Zero, CheckpointsKnowNoStage) {
  const testing::TemporaryDirectory folder;
  const auto file = folder.path() / "state.safetensors";
  const auto state = [](const ParallelModel& model) {
    std::map<std::string, std::vector<std::byte>> tensors;
    const Model::Snapshot snapshot = model.snapshot(Model::Contents::model_and_optimizer);
    for (const NamedTensor& tensor : snapshot.tensors())
      tensors[tensor.name].assign(tensor.data.begin(), tensor.data.end());
    return tensors;
  };
  ParallelModel writer = sharded(3);
  writer.initialize(3);
  train_fold(writer, sharded_job(3), 3, 0.02);
  const auto written = state(writer);
  EXPECT_TRUE(written.contains("optimizer.fc1.weight.momentum")) << "with its optimiser's state";
  write_safetensors(file, writer.snapshot(Model::Contents::model_and_optimizer).tensors(), {});
  for (const PlanConfig& plan : {PlanConfig{}, PlanConfig{.dp = 2, .zero = 1}, PlanConfig{.dp = 4, .zero = 2},
                                 PlanConfig{.dp = 2, .zero = 3}, PlanConfig{.dp = 2, .pp = 2, .zero = 3}}) {
    ParallelModel reader(fold_job(small_vgg(), plan, with_momentum()));
    reader.load(SafetensorsFile(file), Model::Contents::model_and_optimizer);
    EXPECT_EQ(state(reader), written);
  }
}

}  // namespace
}  // namespace trifold::test
