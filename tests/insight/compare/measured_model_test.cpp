// What a comparison reads from models that have trained: gradients, memory, messages and times, under every way to
// divide the work.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "insight/compare/parallel_contestant.h"
#include "runtime/train/job_data.h"
#include "support/job_fixture.h"

namespace trifold::test {
namespace {

class Measured : public JobFixture {
 protected:
  ComparedPlan plan(const std::string& text, std::vector<Override> settings = {}) const {
    write_job(small_job());
    const PlanList list = load_plans(directory() / "job.json", std::move(settings), text);
    return list.plans.back();
  }
  std::unique_ptr<ParallelContestant> contestant(const ComparedPlan& plan,
                                                 FirstWeights weights = FirstWeights::of_the_job) const {
    return std::make_unique<ParallelContestant>(
        ContestantArgs{plan, open_split(plan.job, Split::train), 1, directory() / "state", weights});
  }
};

std::map<std::string, std::vector<float>> parameters_of(const ParallelModel& model) {
  std::map<std::string, std::vector<float>> found;
  const Model::Snapshot snapshot = model.snapshot(Model::Contents::model);
  for (const NamedTensor& tensor : snapshot.tensors()) {
    found[tensor.name].resize(tensor.data.size() / sizeof(float));
    std::memcpy(found[tensor.name].data(), tensor.data.data(), tensor.data.size());
  }
  return found;
}

// A step of plain descent at rate 1: what moved is the gradient.
TEST_F(Measured, GradientsAreThoseOfTheUpdate) {
  for (const char* text : {"single", "dp=2", "tp=2", "pp=2", "micro_batches=2", "dp=2,tp=2,pp=2"}) {
    SCOPED_TRACE(text);
    const Job job =
        plan(text, {parse_set("train.optimizer={\"type\":\"sgd\",\"lr\":1,\"momentum\":0,\"weight_decay\":0}")}).job;
    ParallelModel model(job);
    model.initialize(1);
    const auto before = parameters_of(model);
    const std::unique_ptr<Loader> loader = make_training_loader(job, open_split(job, Split::train), 0, 0);
    model.start_step(&loader->next(), {.seed = 1, .first_sample = 0, .learning_rate = 1, .updates = 1});
    loader->release();
    model.finish_step();
    const auto after = parameters_of(model);

    const Gradients gradients = gradients_of(model);
    ASSERT_EQ(gradients.size(), before.size());
    for (const auto& [name, gradient] : gradients) {
      ASSERT_EQ(gradient.size(), before.at(name).size()) << name;
      for (std::size_t i = 0; i < gradient.size(); ++i)
        ASSERT_NEAR(before.at(name)[i] - after.at(name)[i], gradient[i], 1e-6) << name << " " << i;
    }
  }
}

// Of weights that differ in their last bits only.
TEST_F(Measured, RoundingMovesARunALittle) {
  const ComparedPlan compared = plan("single");
  const std::unique_ptr<ParallelContestant> given = contestant(compared);
  const std::unique_ptr<ParallelContestant> rounded = contestant(compared, FirstWeights::rounded);
  given->take_turn(4);
  rounded->take_turn(4);
  const double gradients = largest_difference(rounded->first_gradients(), given->first_gradients()).relative;
  EXPECT_GT(gradients, 1e-8);
  EXPECT_LT(gradients, 0.1);
  EXPECT_NE(rounded->losses(), given->losses());
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(rounded->losses()[i], given->losses()[i], 1e-2);
}

TEST(Gradients, AreComparedLayerByLayer) {
  const Gradients reference = {{"a.weight", {1, -2}}, {"a.bias", {0.001f}}, {"b.weight", {100}}};
  EXPECT_EQ(largest_difference(reference, reference).relative, 0);
  Gradients other = reference;
  other["a.bias"] = {0.003f};  // small beside the layer's largest
  EXPECT_NEAR(largest_difference(other, reference).relative, 0.001, 1e-6);
  EXPECT_EQ(largest_difference(other, reference).layer, "a");
  other["b.weight"] = {101};
  EXPECT_NEAR(largest_difference(other, reference).relative, 0.01, 1e-6);
  EXPECT_EQ(largest_difference(other, reference).layer, "b");
}

TEST(Gradients, ThatAreNoNumbersDiffer) {
  const Gradients reference = {{"a.weight", {1, 2}}, {"b.weight", {0}}};
  EXPECT_EQ(largest_difference({{"a.weight", {NAN, 2}}, {"b.weight", {0}}}, reference).relative, INFINITY);
  EXPECT_EQ(largest_difference({{"a.weight", {1, 2}}, {"b.weight", {1}}}, reference).relative, INFINITY);
}

TEST_F(Measured, TheTimesOfAStepAddUp) {
  for (const char* text : {"single", "dp=2", "tp=2", "pp=2", "pp=2,schedule=zero-bubble"}) {
    SCOPED_TRACE(text);
    const ComparedPlan compared = plan(text);
    const std::unique_ptr<ParallelContestant> measured = contestant(compared);
    measured->take_turn(4);
    const Turn& turn = measured->turns().back();
    EXPECT_EQ(turn.steps, 3);
    ASSERT_EQ(turn.ranks.size(), static_cast<std::size_t>(measured->fold().mesh.size()));
    const StepSplit split = split_of(turn.seconds, turn.loading, turn.steps, turn.ranks);
    EXPECT_NEAR(split.sum(), turn.seconds_a_step(), 1e-9);
    EXPECT_GT(split.compute, 0) << "no part is counted twice";
    EXPECT_GT(split.input, 0);
    EXPECT_GT(split.optimizer, 0);
    const Mesh& mesh = measured->fold().mesh;
    EXPECT_EQ(split.exposed_comm > 0, mesh.data * mesh.tensor > 1);
    EXPECT_EQ(turn.ranks.back().messages > 0, mesh.pipeline > 1);
    // Nearly all of a rank's time is in nodes: the walk between them is short.
    double nodes = 0;
    for (const RankWork& work : turn.ranks) nodes += work.kernels[0] + work.kernels[1] + work.kernels[2];
    EXPECT_GT(nodes, 0);
    EXPECT_LE(nodes / turn.steps / static_cast<double>(turn.ranks.size()), split.compute + 1e-9);
  }
}

TEST_F(Measured, MemoryIsFoundWhereItWasPlanned) {
  for (const char* text : {"single", "dp=2", "pp=2,schedule=interleaved,chunks=2"}) {
    SCOPED_TRACE(text);
    const Job job = plan(text).job;
    ParallelModel model(job);
    for (int rank = 0; rank < model.plan().mesh.size(); ++rank) {
      const MemoryUse use = memory_use(model, rank);
      EXPECT_LE(use.planned_bytes(), model.memory_bytes(rank)) << "evaluation may need more";
      EXPECT_LE(use.found_bytes(), use.planned_bytes());
    }
  }
  for (const char* text : {"single", "dp=2", "dp=2,zero=3", "pp=2,micro_batches=4", "dp=2,pp=2,micro_batches=2"}) {
    SCOPED_TRACE(text);
    const ComparedPlan compared = plan(text);
    const std::unique_ptr<ParallelContestant> measured = contestant(compared);
    measured->take_turn(2);
    for (const MemoryUse& use : measured->memory())
      EXPECT_GE(static_cast<double>(use.found_bytes()), 0.98 * static_cast<double>(use.planned_bytes()));
  }
}

const Traffic& find(const std::vector<Traffic>& traffic, const std::string& kind) {
  for (const Traffic& each : traffic)
    if (each.kind == kind) return each;
  ADD_FAILURE() << "no " << kind;
  static const Traffic nothing;
  return nothing;
}

TEST_F(Measured, TrafficIsCountedAsARingSendsIt) {
  const ComparedPlan replicas = plan("dp=4");
  const std::unique_ptr<ParallelContestant> measured = contestant(replicas);
  measured->take_turn(2);
  const double parameters = static_cast<double>(measured->memory()[0].planned[static_cast<int>(Region::parameters)]);
  for (const std::vector<Traffic>& rank : measured->traffic()) {
    ASSERT_EQ(rank.size(), 1u);
    EXPECT_EQ(rank[0].kind, "all_reduce");
    EXPECT_EQ(rank[0].axis, Axis::data);
    EXPECT_EQ(rank[0].ranks, 4);
    EXPECT_EQ(rank[0].calls, 1);
    EXPECT_EQ(rank[0].bytes, parameters);
    EXPECT_EQ(rank[0].sent, 2 * 3 / 4.0 * parameters);
    EXPECT_GT(rank[0].seconds, 0);
    const Bandwidth bandwidth = bandwidth_of(rank[0]);
    EXPECT_NEAR(bandwidth.algorithm, parameters / rank[0].seconds / 1e9, 1e-9);
    EXPECT_NEAR(bandwidth.bus, 1.5 * bandwidth.algorithm, 1e-9);
  }
}

// The cut after pool1: 8 channels of 8x8 for every sample, forward and back.
TEST_F(Measured, MessagesOfAPipelineAreCountedByTheirSender) {
  const ComparedPlan pipeline = plan("pp=2,micro_batches=4", {parse_set("plan.device=cpu")});
  ComparedPlan cut = pipeline;
  cut.job.plan.stages = {3, 5};
  const std::unique_ptr<ParallelContestant> measured = contestant(cut);
  measured->take_turn(2);
  ASSERT_EQ(measured->traffic().size(), 2u);
  for (const std::vector<Traffic>& rank : measured->traffic()) {
    const Traffic& sent = find(rank, "send");
    EXPECT_EQ(sent.calls, 4);
    EXPECT_EQ(sent.sent, 32 * 8 * 8 * 8 * 4.0);
    EXPECT_EQ(sent.seconds, 0) << "a message has no time of its own";
  }
}

TEST_F(Measured, APlanThatWasPutAwayGoesOnWhereItWas) {
  for (const char* text : {"single", "dp=2,pp=2"}) {
    SCOPED_TRACE(text);
    const ComparedPlan compared = plan(text);
    const std::unique_ptr<ParallelContestant> kept = contestant(compared);
    for (int turn = 0; turn < 3; ++turn) kept->take_turn(3);
    const std::unique_ptr<ParallelContestant> away = contestant(compared);
    for (int turn = 0; turn < 3; ++turn) {
      away->take_turn(3);
      EXPECT_GT(away->memory_bytes(), 0u);
      away->put_away();
      EXPECT_EQ(away->memory_bytes(), 0u);
    }
    EXPECT_EQ(kept->losses().size(), 9u);
    EXPECT_EQ(away->losses(), kept->losses());
  }
  EXPECT_FALSE(std::filesystem::exists(directory() / "state")) << "left behind";
}

// An epoch is 20 steps: one turn goes over its end, and one begins after it.
TEST_F(Measured, TurnsSeeTheSamplesOfOneRun) {
  const ComparedPlan compared = plan("single");
  const std::unique_ptr<ParallelContestant> turns = contestant(compared);
  for (int turn = 0; turn < 5; ++turn) turns->take_turn(6);
  const std::unique_ptr<ParallelContestant> one = contestant(compared);
  one->take_turn(30);
  EXPECT_EQ(turns->losses(), one->losses());
}

}  // namespace
}  // namespace trifold::test
