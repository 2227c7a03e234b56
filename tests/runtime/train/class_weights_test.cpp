// Class weights: the loss is a weighted mean over the samples of an update, however a plan divides them.
#include <cmath>

#include <gtest/gtest.h>

#include "runtime/train/job_data.h"
#include "runtime/train/parallel_model.h"
#include "support/folding.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

NetworkSpec with_weights(NetworkSpec network) {
  for (std::int64_t k = 0; k < network.classes; ++k)
    network.class_weights.push_back(0.1f * static_cast<float>((k + 1) * (k + 1)));
  return network;
}

// The classes of a batch are drawn: replicas and micro-batches have other sums of weights.
TEST(ClassWeights, EveryPlanDividesByTheWeightsOfTheGlobalBatch) {
  struct Case {
    PlanConfig plan;
    std::int64_t accumulate = 1;
  };
  const std::vector<Case> cases = {{{.dp = 2}},
                                   {{}, 2},
                                   {{.dp = 2}, 2},
                                   {{.micro_batches = 2}},
                                   {{.pp = 2, .schedule = "1f1b", .micro_batches = 4}},
                                   {{.dp = 2, .tp = 2}},
                                   {{.dp = 4, .zero = 3}},
                                   {{.dp = 2, .pp = 2, .schedule = "zero-bubble", .micro_batches = 2, .zero = 2}}};
  for (const auto& make : {small_tutorial, small_resnet}) {
    const FoldRun single = run_fold(with_weights(make()), {}, {});
    EXPECT_NE(single.losses, run_fold(make(), {}, {}).losses);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(i);
      FoldOptions options;
      options.accumulate = cases[i].accumulate;
      const FoldRun folded = run_fold(with_weights(make()), cases[i].plan, options);
      for (std::size_t step = 0; step < single.losses.size(); ++step)
        EXPECT_NEAR(folded.losses[step], single.losses[step], 1e-4 * single.losses[step]) << "step " << step;
    }
  }
}

// Replicas of local SGD, and micro-batches of PipeDream, are updates of their own.
TEST(ClassWeights, WhatIsUpdatedApartIsAveragedApart) {
  FoldOptions half;
  half.batch = 8;
  const Job half_job = fold_job(with_weights(small_tutorial()), {}, half);
  ParallelModel alone(half_job);
  alone.initialize(3);
  const double mean = (step_fold(alone, half_job, 0, 0) + step_fold(alone, half_job, 1, 0)) / 2;
  const PlanConfig local{.dp = 2, .sync = {.kind = GradientSync::Kind::local_sgd, .period = 2}};
  const PlanConfig pipedream{.pp = 2, .schedule = "pipedream", .micro_batches = 2};
  for (const PlanConfig& plan : {local, pipedream}) {
    const Job job = fold_job(with_weights(small_tutorial()), plan, {});
    ParallelModel model(job);
    model.initialize(3);
    EXPECT_NEAR(step_fold(model, job, 0, 0), mean, 1e-5 * mean);
  }
}

TEST(ClassWeights, OfABatchThatWeighsNothingTheLossIsZero) {
  NetworkSpec network = small_tutorial();
  network.class_weights.assign(static_cast<std::size_t>(network.classes), 0.0f);
  EXPECT_EQ(run_fold(network, {}, {}).losses, std::vector<double>(20, 0.0));
}

Score score_of(const Job& job) {
  ParallelModel model(job);
  model.initialize(3);
  const auto loader = make_evaluation_loader(job, open_split(job, Split::test), model.batch_share());
  return model.evaluate(*loader, nullptr);
}

// 50 test samples and batches of 20: all are counted, those of the last batch too.
TEST(ClassWeights, EvaluationIsAWeightedMeanOverAllSamples) {
  Job job = parse_job(R"({"model": {"input": [6, 1, 1], "classes": 2, "layers": [{"type": "flatten"},
                          {"type": "linear", "out": 2}]},
                          "data": {"type": "synthetic_rows", "train_samples": 100, "test_samples": 50},
                          "train": {"batch": 20}})",
                      "job.json", {});
  const auto set = open_split(job, Split::test);
  double ones = 0;
  for (std::int64_t i = 0; i < set->size(); ++i) ones += set->label(i);
  const double zeros = 50 - ones;
  const Score plain = score_of(job);
  EXPECT_EQ(plain.samples, 50);
  const auto weigh = [&](float zero, float one) {
    job.model.class_weights = {zero, one};
    return score_of(job).loss;
  };
  const double of_zeros = weigh(1, 0), of_ones = weigh(0, 1);
  EXPECT_NEAR(plain.loss, (zeros * of_zeros + ones * of_ones) / 50, 1e-6);
  for (const std::int64_t replicas : {1, 2}) {
    job.plan.dp = replicas;
    EXPECT_NEAR(weigh(1, 3), (zeros * of_zeros + 3 * ones * of_ones) / (zeros + 3 * ones), 1e-6);
  }
}

}  // namespace
}  // namespace trifold::test
