// A model's tensors as others see them, and a model that leaves its updates to others.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/train/parallel_model.h"
#include "support/folding.h"
#include "support/networks.h"
#include "support/served_plans.h"

namespace trifold::test {
namespace {

// What the network's tensors are called, in its order.
std::vector<std::string> names_of(const std::vector<ServedTensor>& tensors) {
  std::vector<std::string> names;
  for (const ServedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

std::vector<std::string> names_in_snapshot(const ParallelModel& model) {
  std::vector<std::string> names;
  const Model::Snapshot snapshot = model.snapshot(Model::Contents::model);
  for (const NamedTensor& tensor : snapshot.tensors()) names.push_back(tensor.name);
  return names;
}

TEST(ServedTensors, AreTheNetworksInItsOrderUnderEveryPlan) {
  const ParallelModel single(fold_job(small_resnet(), {}, plain_sgd()), nullptr, Updates::elsewhere);
  const std::vector<ServedTensor> tensors = single.served_tensors();
  EXPECT_EQ(names_of(tensors), names_in_snapshot(single));
  for (const ServedPlan& named : served_plans()) {
    if (!named.plan.split.empty()) continue;
    const Job job = fold_job(small_resnet(), named.plan, plain_sgd(named.accumulate));
    EXPECT_EQ(ParallelModel(job, nullptr, Updates::elsewhere).served_tensors(), tensors) << named.name;
  }
}

TEST(ServedTensors, SayWhatIsTrainedAndWhatDecays) {
  Job job = fold_job(small_resnet(), {}, plain_sgd());
  const auto ends_in = [](const std::string& name, const std::string& end) { return name.ends_with(end); };
  for (const bool all : {false, true}) {
    job.train.decay_bias = all;
    for (const ServedTensor& tensor : ParallelModel(job).served_tensors()) {
      const bool statistic = tensor.name.find("running") != std::string::npos;
      const bool matrix = ends_in(tensor.name, ".weight") && tensor.name.find("bn") == std::string::npos;
      EXPECT_EQ(tensor.trained, !statistic) << tensor.name;
      EXPECT_EQ(tensor.decays, !statistic && (all || matrix)) << tensor.name;
    }
  }
}

std::span<const float> floats_of(const NamedTensor& tensor) {
  return {reinterpret_cast<const float*>(tensor.data.data()), tensor.data.size() / sizeof(float)};
}

TEST(ServedTensors, AreWrittenToWhateverRankHasThem) {
  for (const ServedPlan& named : served_plans()) {
    if (!named.plan.split.empty() && named.name != "tp2_rows") continue;
    SCOPED_TRACE(named.name);
    ParallelModel model(fold_job(small_vgg(), named.plan, plain_sgd(named.accumulate)));
    model.initialize(3);
    const std::vector<ServedTensor> tensors = model.served_tensors();
    float next = 0;
    std::vector<std::vector<float>> written;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::vector<float>& values = written.emplace_back(static_cast<std::size_t>(tensors[i].elements));
      for (float& value : values) value = next++;
      model.write(static_cast<int>(i), values);
    }
    const Model::Snapshot snapshot = model.snapshot(Model::Contents::model);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::vector<float> back(written[i].size());
      model.read(static_cast<int>(i), back);
      EXPECT_EQ(back, written[i]) << tensors[i].name;
      EXPECT_TRUE(std::ranges::equal(floats_of(snapshot.tensors()[i]), written[i])) << tensors[i].name;
    }
  }
}

TEST(ServedTensors, OfAStepAreItsGradientsAndStatistics) {
  for (const ServedPlan& named : served_plans()) {
    if (!named.plan.split.empty()) continue;
    SCOPED_TRACE(named.name);
    const Job job = fold_job(small_resnet(), named.plan, plain_sgd(named.accumulate));
    ParallelModel model(job, nullptr, Updates::elsewhere);
    model.initialize(3);
    step_fold(model, job, 0, 0);
    const std::vector<std::vector<float>> results = model.results();
    std::map<std::string, std::vector<float>> expected;
    for (const Model::Contents contents : {Model::Contents::model, Model::Contents::gradients}) {
      const Model::Snapshot snapshot = model.snapshot(contents);
      for (const NamedTensor& tensor : snapshot.tensors())
        expected[tensor.name] = {floats_of(tensor).begin(), floats_of(tensor).end()};
    }
    const std::vector<ServedTensor> tensors = model.served_tensors();
    ASSERT_EQ(results.size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      EXPECT_EQ(results[i], expected.at(tensors[i].name)) << tensors[i].name;
  }
}

// --- no optimiser

TEST(UpdatesElsewhere, LeaveNoOptimiserNorItsState) {
  FoldOptions options = plain_sgd();
  options.optimizer.kind = OptimizerKind::adam;
  for (const PlanConfig& plan : {PlanConfig{}, PlanConfig{.dp = 2}, PlanConfig{.pp = 2, .micro_batches = 4}}) {
    const ParallelModel model(fold_job(small_vgg(), plan, options), nullptr, Updates::elsewhere);
    const Program& program = model.chunks(0).front()->training().program();
    EXPECT_EQ(program.memory.bytes(Region::optimizer), 0U);
    for (const Node& node : program.graph.nodes) EXPECT_NE(node.op->name(), OptimizerUpdate{}.name());
    const Model::Snapshot snapshot = model.snapshot(Model::Contents::model_and_optimizer);
    for (const NamedTensor& tensor : snapshot.tensors())
      EXPECT_EQ(tensor.name.find("optimizer."), std::string::npos) << tensor.name;
  }
}

std::string refused_elsewhere(const PlanConfig& plan, const FoldOptions& options) {
  try {
    ParallelModel model(fold_job(small_vgg(), plan, options), nullptr, Updates::elsewhere);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    return error.what();
  }
  return "accepted";
}

TEST(UpdatesElsewhere, RefuseWhatServersCannotKnow) {
  FoldOptions half = plain_sgd();
  half.precision = DType::f16;
  EXPECT_EQ(refused_elsewhere({}, half),
            "fold.json: parameter servers do not know fp16's loss scale, nor which updates it would skip: set "
            "train.precision to fp32 or bf16");
  FoldOptions clipped = plain_sgd();
  clipped.optimizer.clip_norm = 1;
  EXPECT_NE(refused_elsewhere({}, clipped).find("set train.clip_norm to 0"), std::string::npos);
  EXPECT_NE(refused_elsewhere({.dp = 2, .zero = 1}, plain_sgd()).find("set plan.zero to 0"), std::string::npos);
  PlanConfig local{.dp = 2};
  local.sync.kind = GradientSync::Kind::local_sgd;
  EXPECT_NE(refused_elsewhere(local, plain_sgd()).find("another plan.sync"), std::string::npos);
  EXPECT_NE(refused_elsewhere({.pp = 2, .schedule = "pipedream", .micro_batches = 4}, plain_sgd())
                .find("another plan.schedule"),
            std::string::npos);
  FoldOptions bf16 = plain_sgd();
  bf16.precision = DType::bf16;
  EXPECT_EQ(refused_elsewhere({}, bf16), "accepted");
}

}  // namespace
}  // namespace trifold::test
