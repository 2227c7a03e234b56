// The rules against plain sorts and sums, and against workers that lie.
#include "parallel/servers/rules/aggregation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

using Columns = std::vector<std::vector<float>>;  // of each contribution its numbers

Columns random_contributions(std::size_t count, std::size_t elements) {
  std::mt19937 random(static_cast<unsigned>(100 * count + elements));
  std::normal_distribution<float> draw;
  Columns columns(count, std::vector<float>(elements));
  for (std::vector<float>& column : columns)
    for (float& value : column) value = draw(random);
  return columns;
}

std::vector<Contribution> as_contributions(const Columns& columns, const std::vector<double>& weights = {}) {
  std::vector<Contribution> contributions;
  for (std::size_t i = 0; i < columns.size(); ++i)
    contributions.push_back({columns[i].data(), weights.empty() ? 1.0 : weights[i]});
  return contributions;
}

std::vector<float> combined(const AggregationArgs& args, const Columns& columns,
                            const std::vector<double>& weights = {}) {
  std::vector<float> out(columns[0].size(), -99.0f);
  make_aggregation(args)->combine(as_contributions(columns, weights), out);
  return out;
}

// `elements` go over several blocks of every rule, and end within one.
constexpr std::size_t kElements = 5003;

TEST(Aggregation, MeanIsTheMean) {
  for (const std::size_t count : {1, 2, 3, 4, 7, 16}) {
    const Columns columns = random_contributions(count, kElements);
    const std::vector<float> out = combined({.rule = "mean"}, columns);
    for (std::size_t k = 0; k < kElements; ++k) {
      double sum = 0;
      for (const auto& column : columns) sum += column[k];
      EXPECT_NEAR(out[k], sum / static_cast<double>(count), 1e-6) << count << " contributions, " << k;
    }
  }
}

// What all-reduce does: a sum in the order of the ranks, then the division.
TEST(Aggregation, MeanAddsInTheOrderOfShards) {
  const Columns columns = random_contributions(4, kElements);
  const std::vector<float> out = combined({.rule = "mean"}, columns);
  for (std::size_t k = 0; k < kElements; ++k)
    EXPECT_EQ(out[k], (((columns[0][k] + columns[1][k]) + columns[2][k]) + columns[3][k]) / 4.0f);
}

// What a host's workers send as one stands for them.
TEST(Aggregation, AMeanOfMeansByTheirShardsIsTheMean) {
  const Columns columns = random_contributions(5, kElements);
  const std::vector<double> weights = {30, 10, 2, 7, 5};
  for (const char* name : {"mean", "weighted_mean"}) {
    const auto rule = make_aggregation({.rule = name});
    EXPECT_TRUE(rule->combines_in_parts());
    std::vector<float> whole(kElements), part(kElements), in_parts(kElements);
    const std::vector<Contribution> all = as_contributions(columns, weights);
    rule->combine(all, whole);
    rule->combine(std::vector{all[1], all[2], all[4]}, part);
    rule->combine(std::vector<Contribution>{all[0], {.values = part.data(), .weight = 17, .shards = 3}, all[3]},
                  in_parts);
    for (std::size_t k = 0; k < kElements; ++k) EXPECT_NEAR(in_parts[k], whole[k], 1e-6) << name << " " << k;
  }
  for (const char* name : {"sign_vote", "median", "trimmed_mean", "krum"})
    EXPECT_FALSE(make_aggregation({.rule = name})->combines_in_parts()) << name;
}

TEST(Aggregation, WeightedMeanGoesByWeights) {
  const Columns columns = random_contributions(3, kElements);
  const std::vector<float> out = combined({.rule = "weighted_mean"}, columns, {30, 10, 2});
  for (std::size_t k = 0; k < kElements; ++k)
    EXPECT_NEAR(out[k], (30.0 * columns[0][k] + 10.0 * columns[1][k] + 2.0 * columns[2][k]) / 42, 1e-6);
  EXPECT_EQ(combined({.rule = "weighted_mean"}, {{1.5f}}, {17}), std::vector<float>{1.5f});
  EXPECT_THROW(combined({.rule = "weighted_mean"}, columns, {30, 0, 2}), Error);
}

TEST(Aggregation, SignVoteIsTheMajority) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Columns columns = {{5, -1, 0, 2, nan, 1}, {1, -1e-9f, 0, -2, 3, -1}, {-9, 100, -3, 0, nan, nan}};
  EXPECT_EQ(combined({.rule = "sign_vote"}, columns), (std::vector<float>{1, -1, -1, 0, 1, 0}));
  const Columns many = random_contributions(6, kElements);
  const std::vector<float> out = combined({.rule = "sign_vote"}, many);
  for (std::size_t k = 0; k < kElements; ++k) {
    int votes = 0;
    for (const auto& column : many) votes += column[k] > 0 ? 1 : -1;
    EXPECT_EQ(out[k], votes > 0 ? 1.0f : votes < 0 ? -1.0f : 0.0f);
  }
}

std::vector<float> sorted_column(const Columns& columns, std::size_t k) {
  std::vector<float> values;
  for (const auto& column : columns) values.push_back(column[k]);
  std::sort(values.begin(), values.end());
  return values;
}

TEST(Aggregation, MedianIsTheMiddleOrTheMeanOfTwo) {
  for (std::size_t count = 1; count <= 20; ++count) {
    const Columns columns = random_contributions(count, 700);
    const std::vector<float> out = combined({.rule = "median"}, columns);
    for (std::size_t k = 0; k < 700; ++k) {
      const std::vector<float> sorted = sorted_column(columns, k);
      EXPECT_FLOAT_EQ(out[k], 0.5f * (sorted[(count - 1) / 2] + sorted[count / 2])) << count;
    }
  }
}

TEST(Aggregation, TrimmedMeanLeavesOutBothEnds) {
  for (const std::size_t count : {1, 2, 5, 10, 11, 33}) {
    for (const double trim : {0.0, 0.1, 0.15, 0.2, 0.49}) {
      const Columns columns = random_contributions(count, 300);
      const std::vector<float> out = combined({.rule = "trimmed_mean", .trim = trim}, columns);
      const auto cut = static_cast<std::size_t>(std::floor(trim * static_cast<double>(count) + 1e-9));
      for (std::size_t k = 0; k < 300; ++k) {
        const std::vector<float> sorted = sorted_column(columns, k);
        double sum = 0;
        for (std::size_t i = cut; i < count - cut; ++i) sum += sorted[i];
        EXPECT_NEAR(out[k], sum / static_cast<double>(count - 2 * cut), 2e-6) << count << " trimmed by " << trim;
      }
    }
  }
}

TEST(Aggregation, FewThatLieDoNotMatter) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const float lie : {1e30f, -1e30f, nan, infinity, -infinity}) {
    for (std::size_t liar = 0; liar < 5; ++liar) {
      Columns columns = {{1.0f, 2.0f}, {1.1f, 2.1f}, {0.9f, 1.9f}, {1.05f, 2.05f}, {0.95f, 1.95f}};
      columns[liar] = {lie, lie};
      for (const char* rule : {"median", "trimmed_mean", "krum"}) {
        const std::vector<float> out = combined({.rule = rule, .trim = 0.2, .byzantine = 1}, columns);
        EXPECT_NEAR(out[0], 1, 0.11) << rule << " with a lie of " << lie;
        EXPECT_NEAR(out[1], 2, 0.11) << rule;
      }
    }
  }
}

// Five points on a line, one may lie: a score is the sum of the 5 - 1 - 2 = 2 nearest squared distances.
TEST(Krum, ChoosesTheOneNearestToItsNeighbours) {
  const Columns columns = {{0.0f}, {1.0f}, {1.5f}, {3.0f}, {100.0f}};
  // Scores: 1 + 2.25, 0.25 + 1, 0.25 + 2.25, 2.25 + 4, a lot.
  EXPECT_EQ(combined({.rule = "krum", .byzantine = 1}, columns), std::vector<float>{1.0f});
}

TEST(Krum, GoesByTheDistancesOfTheWholeModel) {
  // Of the first slice alone worker 0 is best, of both together worker 3.
  const Columns first = {{0.0f}, {0.1f}, {-0.1f}, {0.2f}, {-9.0f}};
  const Columns second = {{50.0f}, {7.0f}, {1.0f}, {2.0f}, {1.5f}};
  const auto krum = make_aggregation({.rule = "krum", .byzantine = 1});
  EXPECT_TRUE(krum->needs_distances());
  EXPECT_EQ(krum->least_contributions(), 5);
  std::vector<double> distances(25, 0.0);
  add_squared_distances(as_contributions(first), 1, distances);
  EXPECT_EQ(krum->choose(distances), 0);
  add_squared_distances(as_contributions(second), 1, distances);
  EXPECT_EQ(krum->choose(distances), 3);
  EXPECT_NEAR(distances[1], 0.1 * 0.1 + 43 * 43, 1e-5);
  EXPECT_EQ(distances[1], distances[5]);
  EXPECT_EQ(distances[0], 0);
}

TEST(Krum, DistancesOfSlicesAddUpToThoseOfTheWhole) {
  const Columns columns = random_contributions(6, 1001);
  std::vector<double> whole(36, 0.0), parts(36, 0.0);
  add_squared_distances(as_contributions(columns), 1001, whole);
  for (std::size_t begin = 0; begin < 1001; begin += 100) {
    std::vector<Contribution> slice = as_contributions(columns);
    for (Contribution& contribution : slice) contribution.values += begin;
    add_squared_distances(slice, std::min<std::size_t>(100, 1001 - begin), parts);
  }
  for (std::size_t i = 0; i < 36; ++i) EXPECT_NEAR(parts[i], whole[i], 1e-9 * (1 + whole[i]));
}

TEST(Krum, NeedsEnoughContributions) {
  try {
    combined({.rule = "krum", .byzantine = 1}, random_contributions(4, 3));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "krum against 1 that lie needs at least 5 contributions, not 4");
  }
}

TEST(Aggregation, NamesAreKnownAndOthersRefused) {
  EXPECT_EQ(fmt::format("{}", fmt::join(aggregation_names(), " ")),
            "mean weighted_mean sign_vote median trimmed_mean krum");
  for (const std::string& name : aggregation_names()) EXPECT_EQ(make_aggregation({.rule = name})->name(), name);
  try {
    make_aggregation({.rule = "average"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("known are mean, weighted_mean"), std::string::npos) << error.what();
  }
  EXPECT_THROW(make_aggregation({.rule = "trimmed_mean", .trim = 0.5}), Error);
  EXPECT_THROW(make_aggregation({.rule = "krum", .byzantine = -1}), Error);
  EXPECT_THROW(make_aggregation({.rule = "mean"})->choose({}), Error);
}

}  // namespace
}  // namespace trifold
