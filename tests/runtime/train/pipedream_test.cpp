// PipeDream: every micro-batch is an update, by gradients of the weights that its forward work saw.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/checkpoint/temporary_directory.h"
#include "runtime/train/parallel_model.h"
#include "support/folding.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

constexpr int kMicroBatches = 6;
constexpr double kRate = 0.1;

PlanConfig pipedream(std::int64_t stages) {
  return {.pp = stages, .schedule = "pipedream", .micro_batches = kMicroBatches};
}

FoldOptions of_batch(std::int64_t batch) {
  FoldOptions options;
  options.batch = batch;
  options.bn_group = 1;
  return options;
}

using Tensors = std::map<std::string, std::vector<float>>;

Tensors tensors_of(const ParallelModel& model, Model::Contents contents) {
  Tensors tensors;
  const Model::Snapshot snapshot = model.snapshot(contents);
  for (const NamedTensor& tensor : snapshot.tensors()) {
    std::vector<float>& values = tensors[tensor.name];
    values.resize(tensor.data.size() / sizeof(float));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  }
  return tensors;
}

int stage_of_tensor(const ParallelModel& pipeline, const std::string& name) {
  for (int stage = 0; stage < pipeline.plan().mesh.pipeline; ++stage)
    for (const Parameter& parameter : pipeline.chunks(stage).front()->training().program().graph.parameters)
      if (parameter.name == name) return stage;
  ADD_FAILURE() << name;
  return 0;
}

// One rank that is given, for each micro-batch, the weights that each stage had when it came by.
TEST(Pipedream, IsWhatItsOrderOfUpdatesSays) {
  for (const int stages : {2, 3}) {
    SCOPED_TRACE(stages);
    const Job job = fold_job(small_tutorial(), pipedream(stages), of_batch(4 * kMicroBatches));
    ParallelModel pipeline(job);
    pipeline.initialize(3);

    const Job one_job = fold_job(small_tutorial(), {}, of_batch(4));
    ParallelModel one(one_job);
    one.initialize(3);
    std::vector<Tensors> versions = {tensors_of(one, Model::Contents::model)};  // by updates
    double loss = 0;
    const testing::TemporaryDirectory directory;
    const std::filesystem::path file = directory / "weights.safetensors";
    for (int micro = 0; micro < kMicroBatches; ++micro) {
      std::map<std::string, std::vector<float>> seen;
      for (const auto& [name, values] : versions.back()) {
        const int stage = stage_of_tensor(pipeline, name);
        const int old = staleness_of(pipeline.plan().pipeline, stage)[static_cast<std::size_t>(micro)];
        seen[name] = versions[static_cast<std::size_t>(micro - old)].at(name);
      }
      std::vector<NamedTensor> tensors;
      const Model::Snapshot like = one.snapshot(Model::Contents::model);
      for (const NamedTensor& tensor : like.tensors())
        tensors.push_back(
            {tensor.name, tensor.shape, DType::f32, std::as_bytes(std::span<const float>(seen[tensor.name]))});
      write_safetensors(file, tensors, {});
      one.load(SafetensorsFile(file), Model::Contents::model);
      loss += step_fold(one, one_job, micro, 0) / kMicroBatches;
      const Tensors gradients = tensors_of(one, Model::Contents::gradients);
      Tensors next = versions.back();
      for (const auto& [name, values] : gradients)
        for (std::size_t i = 0; i < values.size(); ++i) next[name][i] -= static_cast<float>(kRate) * values[i];
      versions.push_back(std::move(next));
    }

    EXPECT_NEAR(step_fold(pipeline, job, 0, kRate), loss, 1e-5 * loss);
    const Tensors ended = tensors_of(pipeline, Model::Contents::model);
    bool moved = false;
    for (const auto& [name, values] : versions.back())
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(ended.at(name)[i], values[i], 1e-5) << name << " " << i;
        moved = moved || std::abs(values[i] - versions.front().at(name)[i]) > 1e-3;
      }
    EXPECT_TRUE(moved) << "the comparison means something";
  }
}

TEST(Pipedream, IsTheSameInEveryRun) {
  const FoldRun first = run_fold(small_resnet(), {.dp = 2, .pp = 2, .schedule = "pipedream", .micro_batches = 4}, {});
  const FoldRun second = run_fold(small_resnet(), {.dp = 2, .pp = 2, .schedule = "pipedream", .micro_batches = 4}, {});
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.parameters, second.parameters);
}

TEST(Pipedream, WeightsAreAsOldAsTheStagesAfter) {
  for (const int stages : {2, 4, 8})
    for (int stage = 0; stage < stages; ++stage) {
      const std::vector<int> staleness =
          staleness_of({.schedule = &pipeline_schedule("pipedream"), .stages = stages, .micro_batches = 16}, stage);
      for (int micro = 0; micro < 16; ++micro)
        EXPECT_EQ(staleness[static_cast<std::size_t>(micro)], std::min(micro, stages - 1 - stage));
    }
}

TEST(Pipedream, RefusesWhatNeedsAllStagesAtOnce) {
  const auto refusal = [](PlanConfig plan, double clip_norm) {
    FoldOptions options;
    options.optimizer.clip_norm = clip_norm;
    try {
      ParallelModel model(fold_job(small_tutorial(), plan, options));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  PlanConfig plan{.dp = 2, .pp = 2, .schedule = "pipedream", .micro_batches = 2};
  EXPECT_EQ(refusal(plan, 0), "accepted");
  EXPECT_NE(refusal(plan, 1).find("set train.clip_norm to 0"), std::string::npos);
  plan.zero = 1;
  EXPECT_NE(refusal(plan, 0).find("set plan.zero to 0"), std::string::npos);
  EXPECT_NE(refusal({.schedule = "pipedream"}, 0).find("set plan.pp to 2 or more"), std::string::npos);
}

}  // namespace
}  // namespace trifold::test
