#include "runtime/cluster/model_work.h"

#include <cmath>
#include <stdexcept>

#include <gtest/gtest.h>

#include "runtime/train/job_data.h"

namespace trifold {
namespace {

constexpr float kRate = 0.1F;

// 100 rows in batches of 20, of a network whose dropout depends on where in the stream a sample is.
Job with_settings(const std::vector<Override>& settings) {
  return parse_job(R"({"model": {"input": [6, 1, 1], "classes": 2, "layers": [{"type": "flatten"},
                       {"type": "linear", "out": 16}, {"type": "relu"}, {"type": "dropout"},
                       {"type": "linear", "out": 2}]},
                       "data": {"type": "synthetic_rows", "train_samples": 100, "flipped": 0},
                       "train": {"batch": 20, "epochs": 4, "threads": 1,
                                 "optimizer": {"type": "sgd", "lr": 0.1}}})",
                   "job.json", settings);
}

Job dropout_job(const std::string& plan) {
  return with_settings(plan.empty() ? std::vector<Override>{} : parse_plan(plan));
}

using Values = std::vector<std::vector<float>>;

Values values_of(const ParallelModel& model) {
  Values values;
  for (const ServedTensor& tensor : model.served_tensors()) {
    values.emplace_back(static_cast<std::size_t>(tensor.elements));
    model.read(static_cast<int>(values.size()) - 1, values.back());
  }
  return values;
}

// The job without servers: its first values, its losses, and its last values.
struct SingleRun {
  explicit SingleRun(int steps) {
    const Job job = dropout_job("");
    ParallelModel model(job);
    model.initialize(job.train.seed);
    first = values_of(model);
    const auto loader = make_training_loader(job, open_split(job, Split::train), 0, 0);
    for (int i = 0; i < steps; ++i) {
      model.start_step(&loader->next(),
                       {.seed = job.train.seed, .first_sample = 0, .learning_rate = kRate, .updates = i + 1});
      loader->release();
      losses.push_back(model.finish_step().loss);
    }
    last = values_of(model);
  }
  Values first;
  Values last;
  std::vector<double> losses;
};

// Servers in memory, which average what `shards` push.
class MemoryServers final : public ParameterExchange {
 public:
  MemoryServers(Values given, int shard_count) : values(std::move(given)), sums(values), shards(shard_count) {
    for (std::vector<float>& sum : sums) std::ranges::fill(sum, 0.0F);
  }
  bool need_parameter(int tensor, std::span<float> to) override {
    if (fails) throw std::runtime_error("interrupted");
    std::ranges::copy(values[static_cast<std::size_t>(tensor)], to.begin());
    return true;
  }
  void gradient_ready(int tensor, std::span<const float> push) override {
    std::vector<float>& sum = sums[static_cast<std::size_t>(tensor)];
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += push[i] / static_cast<float>(shards);
  }
  void apply(float factor) {
    for (std::size_t t = 0; t < values.size(); ++t)
      for (std::size_t i = 0; i < values[t].size(); ++i) values[t][i] += factor * std::exchange(sums[t][i], 0.0F);
  }

  Values values;
  Values sums;
  int shards;
  bool fails = false;
};

void expect_near(const Values& values, const Values& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t t = 0; t < values.size(); ++t)
    for (std::size_t i = 0; i < values[t].size(); ++i)
      ASSERT_NEAR(values[t][i], expected[t][i], 1e-5) << "tensor " << t << ", element " << i;
}

ModelWork work_of(const std::string& plan) {
  const Job job = dropout_job(plan);
  return ModelWork(job, open_split(job, Split::train));
}

TEST(ModelWorkTest, ShardsTogetherTrainAsTheSingleRun) {
  const SingleRun single(12);
  ModelWork work = work_of("ps,workers=4");
  EXPECT_EQ(work.clocks(), 20);
  MemoryServers servers(single.first, 4);
  for (int clock = 0; clock < 12; ++clock) {
    double loss = 0;
    for (int shard = 0; shard < 4; ++shard) {
      const ShardWork::Result result = work.compute(shard, clock, servers);
      EXPECT_EQ(result.samples, 5);
      loss += result.loss / 4;
    }
    EXPECT_NEAR(loss, single.losses[static_cast<std::size_t>(clock)], 1e-5 * std::abs(loss)) << "clock " << clock;
    servers.apply(-static_cast<float>(work.learning_rate(clock)));
  }
  expect_near(servers.values, single.last);
}

TEST(ModelWorkTest, AnInterruptedClockIsDoneAgainAsIfNothingHadBeen) {
  const SingleRun single(3);
  ModelWork work = work_of("ps,workers=1");
  MemoryServers servers(single.first, 1);
  for (int clock = 0; clock < 3; ++clock) {
    servers.fails = true;
    EXPECT_THROW(work.compute(0, clock, servers), std::runtime_error);
    servers.fails = false;
    work.compute(0, clock, servers);
    servers.apply(-kRate);
  }
  expect_near(servers.values, single.last);
}

TEST(ModelWorkTest, AShardMayBeGivenUpAndTakenOverAtAnyClock) {
  const SingleRun single(7);
  ModelWork work = work_of("ps,workers=1");
  MemoryServers servers(single.first, 1);
  for (int clock = 0; clock < 7; ++clock) {
    if (clock % 3 == 2) work.give_up(0);
    EXPECT_NEAR(work.compute(0, clock, servers).loss, single.losses[static_cast<std::size_t>(clock)], 1e-5);
    servers.apply(-kRate);
  }
}

TEST(ModelWorkTest, APeriodOfStepsIsPushedAsOne) {
  const SingleRun single(4);
  ModelWork work = work_of("ps,workers=1,period=2");
  MemoryServers servers(single.first, 1);
  for (int clock = 0; clock < 2; ++clock) {
    const ShardWork::Result result = work.compute(0, clock, servers);
    EXPECT_EQ(result.samples, 40);
    EXPECT_NEAR(
        result.loss,
        (single.losses[static_cast<std::size_t>(2 * clock)] + single.losses[static_cast<std::size_t>(2 * clock + 1)]) /
            2,
        1e-5);
    servers.apply(-kRate);
  }
  expect_near(servers.values, single.last);
}

// Two clients with data of their own: each is as far from their mean, and a model is not far from itself.
TEST(ModelWorkTest, AClientsModelIsComparedWithWhatServersMadeOfTheRound) {
  std::vector<Override> settings = parse_plan("federated,clients=2");
  settings.push_back(parse_set("train.stop.output_kl=0.001"));
  const Job job = with_settings(settings);
  ModelWork work(job, open_split(job, Split::train));
  EXPECT_TRUE(work.compares_after(0));
  MemoryServers servers(SingleRun(0).first, 2);
  for (int shard = 0; shard < 2; ++shard) work.compute(shard, 0, servers);
  const Values before = servers.values;
  servers.apply(1);
  const auto first = work.compare(0, servers.values);
  const auto second = work.compare(1, servers.values);
  ASSERT_TRUE(first && second && first->kl && second->kl);
  EXPECT_GT(first->distance, 0);
  EXPECT_NEAR(first->distance, second->distance, 1e-6);
  EXPECT_GT(*first->kl, 0);
  EXPECT_GT(*second->kl, 0);
  EXPECT_EQ(work.compare(0, servers.values), std::nullopt);  // asked once

  work.compute(0, 1, servers);
  work.give_up(0);
  EXPECT_EQ(work.compare(0, servers.values), std::nullopt);
}

TEST(ModelWorkTest, TheOnlyClientIsAsTheServersAreAfterItsRound) {
  std::vector<Override> settings = parse_plan("federated,clients=1");
  settings.push_back(parse_set("train.stop.output_kl=0.001"));
  const Job job = with_settings(settings);
  ModelWork work(job, open_split(job, Split::train));
  MemoryServers servers(SingleRun(0).first, 1);
  work.compute(0, 0, servers);
  servers.apply(1);
  const auto difference = work.compare(0, servers.values);
  ASSERT_TRUE(difference);
  EXPECT_LT(difference->distance, 1e-6);
  EXPECT_LT(difference->kl, 1e-6);
}

// Of steps whose gradients are pushed it is what the last of them worked with, once an epoch of 5 clocks.
TEST(ModelWorkTest, AWorkerThatDoesNotWaitIsComparedOnceAnEpoch) {
  std::vector<Override> settings = parse_plan("ps,workers=1,mode=async");
  settings.push_back(parse_set("train.stop.model_distance=0.1"));
  const Job job = with_settings(settings);
  ModelWork work(job, open_split(job, Split::train));
  MemoryServers servers(SingleRun(0).first, 1);
  Values worked_with;
  for (int clock = 0; clock < 5; ++clock) {
    EXPECT_EQ(work.compares_after(clock), clock == 4);
    worked_with = servers.values;
    work.compute(0, clock, servers);
    servers.apply(-kRate);
  }
  const auto difference = work.compare(0, servers.values);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->distance, relative_distance(work.tensors(), worked_with, servers.values));
  EXPECT_GT(difference->distance, 0);
  EXPECT_EQ(difference->kl, std::nullopt);
}

TEST(ModelWorkTest, TheOnlyClientOfARoundTrainsAsTheSingleRun) {
  const SingleRun single(10);
  ModelWork work = work_of("federated,clients=1,local_epochs=1");
  EXPECT_EQ(work.clocks(), 4);
  EXPECT_EQ(work.weight(0), 100);
  MemoryServers servers(single.first, 1);
  for (int round = 0; round < 2; ++round) {
    work.compute(0, round, servers);
    servers.apply(1);
  }
  expect_near(servers.values, single.last);
}

}  // namespace
}  // namespace trifold
