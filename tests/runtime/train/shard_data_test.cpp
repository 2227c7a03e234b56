#include "runtime/train/shard_data.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "runtime/train/job_data.h"

namespace trifold {
namespace {

// 100 rows whose classes come in turn.
Job rows_job(const std::string& plan, const std::string& shard = "") {
  std::vector<Override> settings = parse_plan(plan);
  if (!shard.empty()) settings.push_back(parse_set("data.shard=" + shard));
  return parse_job(R"({"model": {"input": [6, 1, 1], "classes": 2, "layers": [{"type": "flatten"},
                       {"type": "linear", "out": 2}]},
                       "data": {"type": "synthetic_rows", "train_samples": 100, "flipped": 0},
                       "train": {"batch": 20}})",
                   "job.json", settings);
}

// A row's first number stands for the sample.
std::vector<float> firsts(const Batch& batch) {
  std::vector<float> numbers;
  for (int i = 0; i < batch.count; ++i) numbers.push_back(batch.images[static_cast<std::size_t>(6 * i)]);
  return numbers;
}

std::vector<std::vector<float>> take_batches(Loader& loader, int batches) {
  std::vector<std::vector<float>> taken;
  for (int i = 0; i < batches; ++i) {
    taken.push_back(firsts(loader.next()));
    loader.release();
  }
  return taken;
}

TEST(ShardData, SharesOfABatchAreTheBatchOfTheSingleRun) {
  const Job job = rows_job("ps,workers=4");
  const auto set = open_split(job, Split::train);
  const ShardData data(job, set);
  EXPECT_EQ(shard_job(job).train.batch, 5);
  const auto single = make_training_loader(job, set, 0, 0);
  const auto whole = take_batches(*single, 7);
  for (int shard = 0; shard < 4; ++shard) {
    EXPECT_EQ(data.steps_per_epoch(shard), 5);
    EXPECT_EQ(data.samples(shard), 25);
    const auto loader = data.loader(shard, 0);
    const auto own = take_batches(*loader, 7);
    for (std::size_t step = 0; step < 7; ++step)
      EXPECT_EQ(own[step], std::vector<float>(whole[step].begin() + 5 * shard, whole[step].begin() + 5 * shard + 5));
  }
  EXPECT_EQ(data.describe(), "4 shards take 5 samples each of every batch of 20\n");
}

TEST(ShardData, WhoTakesAShardOverGoesOnWhereItWas) {
  for (const char* shard : {"batch", "index", "rank", "kfold", "dirichlet"}) {
    const Job job = rows_job("ps,workers=4", shard);
    const ShardData data(job, open_split(job, Split::train));
    const auto first = data.loader(2, 0);
    const auto batches = take_batches(*first, 12);
    for (const int clock : {1, 5, 11}) {
      const auto second = data.loader(2, clock);
      EXPECT_EQ(take_batches(*second, 1).front(), batches[static_cast<std::size_t>(clock)]) << shard << " " << clock;
    }
  }
}

TEST(ShardData, AShardReadsItsOwnSamplesOnly) {
  const Job job = rows_job("ps,workers=4", "rank");
  const auto set = open_split(job, Split::train);
  const ShardData data(job, set);
  std::map<float, int> seen;
  for (int shard = 0; shard < 4; ++shard) {
    const auto loader = data.loader(shard, 0);
    for (const auto& batch : take_batches(*loader, 5))
      for (const float sample : batch) ++seen[sample];
  }
  EXPECT_EQ(seen.size(), 100u);  // 5 steps of 5 are an epoch of 25: each sample once
  EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& count) { return count.second == 1; }));
}

TEST(ShardData, ClientsOfUnevenSizeStepAsTheirOwnDataLasts) {
  const Job job = rows_job("federated,clients=3", "dirichlet");
  EXPECT_EQ(shard_job(job).train.batch, 20);
  const ShardData data(job, open_split(job, Split::train));
  double weights = 0;
  for (int client = 0; client < 3; ++client) {
    EXPECT_GE(data.samples(client), 20);
    EXPECT_EQ(data.steps_per_epoch(client), data.samples(client) / 20);
    weights += data.weight(client);
  }
  EXPECT_EQ(weights, 100);
  EXPECT_TRUE(data.describe().starts_with("by dirichlet: 3 shards of ")) << data.describe();
}

}  // namespace
}  // namespace trifold
