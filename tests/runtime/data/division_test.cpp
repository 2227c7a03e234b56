#include "runtime/data/division.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "runtime/data/csv.h"
#include "runtime/data/subset.h"
#include "runtime/data/synthetic_rows.h"
#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::input_error;
using testing::TemporaryFolder;

constexpr DivisionKind kFixed[] = {DivisionKind::index, DivisionKind::rank, DivisionKind::kfold,
                                   DivisionKind::dirichlet};

std::unique_ptr<Dataset> drawn_rows(std::int64_t samples, int classes = 4) {
  return open_synthetic_rows({6, 1, 1}, classes, 3, Split::train,
                             {.train_samples = samples, .informative = 3, .redundant = 1, .flipped = 0});
}

std::vector<std::int64_t> all_of_shards(const Shards& shards) {
  std::vector<std::int64_t> all;
  for (const auto& shard : shards) {
    EXPECT_TRUE(std::ranges::is_sorted(shard));
    all.insert(all.end(), shard.begin(), shard.end());
  }
  std::ranges::sort(all);
  return all;
}

TEST(Division, EverySampleIsOfOneShard) {
  const auto set = drawn_rows(103);
  std::vector<std::int64_t> every(103);
  std::iota(every.begin(), every.end(), std::int64_t{0});
  for (const DivisionKind kind : kFixed)
    for (const int shards : {1, 2, 7, 10}) {
      SCOPED_TRACE(std::string(name_of(kind)) + " " + std::to_string(shards));
      const Shards divided = divide(*set, {.kind = kind}, shards, 1, 5);
      EXPECT_EQ(divided.size(), static_cast<std::size_t>(shards));
      EXPECT_EQ(all_of_shards(divided), every);
      for (const auto& shard : divided) EXPECT_GE(shard.size(), 5u);
    }
}

TEST(Division, ByIndexRankAndFold) {
  EXPECT_EQ(divide_by_index(7, 3), (Shards{{0, 1}, {2, 3}, {4, 5, 6}}));
  EXPECT_EQ(divide_by_rank(7, 3), (Shards{{0, 3, 6}, {1, 4}, {2, 5}}));
  const Shards folds = divide_into_folds(100, 4, 1);
  EXPECT_EQ(folds, divide_into_folds(100, 4, 1));
  EXPECT_NE(folds, divide_into_folds(100, 4, 2));
  EXPECT_NE(folds, divide_by_index(100, 4));
  for (const auto& fold : folds) EXPECT_EQ(fold.size(), 25u);
}

TEST(Division, ByTimeTheOldestFirst) {
  const std::vector<double> times = {30, 10, 20, 10, 0, 50};
  EXPECT_EQ(divide_by_time(times, 3), (Shards{{1, 4}, {2, 3}, {0, 5}}));
}

TEST(Division, ByTheTimeColumnOfATable) {
  const TemporaryFolder folder;
  const auto file = folder.write("t.csv", "x,when,y\n1,2024-03-01,0\n2,2023-12-31T23:59:59Z,1\n3,2024-01-01,0\n");
  const auto set = open_csv(file, Split::train, {}, {.label_column = "y", .time_column = "when"});
  EXPECT_EQ(divide(*set, {.kind = DivisionKind::time}, 3, 1, 1), (Shards{{1}, {2}, {0}}));
  EXPECT_SAYS(input_error([] { divide(*drawn_rows(10), {.kind = DivisionKind::time}, 2, 1, 1); }), "data.time_column");
}

// The share of its commonest class, the mean over shards.
double commonest_share(const Dataset& set, const Shards& shards) {
  double sum = 0;
  for (const auto& shard : shards) {
    std::vector<int> counts(static_cast<std::size_t>(set.classes()));
    for (const std::int64_t sample : shard) ++counts[static_cast<std::size_t>(set.label(sample))];
    sum += *std::ranges::max_element(counts) / static_cast<double>(shard.size());
  }
  return sum / static_cast<double>(shards.size());
}

TEST(Division, DirichletShardsAreTheLessAlikeTheSmallerAlphaIs) {
  const auto set = drawn_rows(4000);
  const auto share = [&](double alpha) {
    return commonest_share(*set, divide(*set, {.kind = DivisionKind::dirichlet, .alpha = alpha}, 10, 1, 1));
  };
  EXPECT_GT(share(0.01), 0.85);
  EXPECT_GT(share(0.5), 0.4);
  EXPECT_LT(share(0.5), share(0.01));
  EXPECT_LT(share(1e4), 0.27);  // 0.25 of 4 classes: all alike
  const Division half{.kind = DivisionKind::dirichlet};
  EXPECT_EQ(divide(*set, half, 10, 1, 10), divide(*set, half, 10, 1, 10));
  EXPECT_NE(divide(*set, half, 10, 1, 10), divide(*set, half, 10, 2, 10));
}

// Of Dir(alpha) over K shards a share has the variance (1/K) (1 - 1/K) / (K alpha + 1).
TEST(Division, DirichletSharesHaveTheirVariance) {
  constexpr int kClasses = 400;
  constexpr int kOfClass = 500;
  constexpr int kShards = 5;
  std::vector<int> labels;
  for (int i = 0; i < kClasses * kOfClass; ++i) labels.push_back(i % kClasses);
  for (const double alpha : {0.5, 3.0}) {
    double squares = 0;
    for (const auto& shard : divide_by_dirichlet(labels, kShards, alpha, 1, 1)) {
      std::vector<int> counts(kClasses);
      for (const std::int64_t sample : shard)
        ++counts[static_cast<std::size_t>(labels[static_cast<std::size_t>(sample)])];
      for (const int count : counts) squares += std::pow(count / double{kOfClass} - 1.0 / kShards, 2);
    }
    const double variance = squares / (kClasses * kShards);
    const double expected = 0.2 * 0.8 / (kShards * alpha + 1);
    EXPECT_NEAR(variance / expected, 1, 0.1) << alpha;
  }
}

TEST(Division, EveryDirichletShardFillsABatch) {
  const std::vector<int> labels(64, 0);  // of one class: most shares would be next to nothing
  for (const auto& shard : divide_by_dirichlet(labels, 8, 0.001, 1, 8)) EXPECT_EQ(shard.size(), 8u);
  EXPECT_SAYS(input_error([] { divide(*drawn_rows(63), {.kind = DivisionKind::dirichlet}, 8, 1, 8); }),
              "63 samples cannot be divided into 8 shards of at least 8");
}

TEST(Division, SaysHowUnevenShardsAre) {
  EXPECT_EQ(describe_shards(*drawn_rows(8, 2), {{0, 1, 2, 4, 6, 7}, {3, 5}}),
            "2 shards of 2 to 6 samples; the largest has 1.50 times the mean\n"
            "  shard 0: 6 samples (75.0 %), by class 4 2\n"
            "  shard 1: 2 samples (25.0 %), by class 0 2\n");
}

TEST(Division, NamesAreReadBack) {
  for (const std::string& name : division_names()) EXPECT_EQ(name_of(parse_division(name)), name);
}

TEST(Subset, ReadsTheSamplesOfTheWhole) {
  const std::shared_ptr<const Dataset> whole = drawn_rows(20);
  const SubsetDataset part(whole, {3, 17});
  EXPECT_EQ(part.size(), 2);
  EXPECT_EQ(part.classes(), whole->classes());
  EXPECT_EQ(part.label(1), whole->label(17));
  EXPECT_EQ(part.origin(1), whole->origin(17));
  std::vector<float> own(6);
  std::vector<float> expected(6);
  part.read_pixels(1, nullptr, std::span(own));
  whole->read_pixels(17, nullptr, std::span(expected));
  EXPECT_EQ(own, expected);
  EXPECT_THROW(part.label(2), Error);
  EXPECT_THROW(SubsetDataset(whole, {20}), Error);
}

}  // namespace
}  // namespace trifold
