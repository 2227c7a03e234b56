// Compressed sums: what a step says and what it keeps for later is together what all ranks had to say.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "kernels/ops/gradient_exchange.h"
#include "parallel/rank_groups.h"

namespace trifold {
namespace {

constexpr int kRanks = 3;
constexpr std::int64_t kElements = 600;

// Every rank's kernel of an op over kElements numbers, with its memory.
class Exchanges {
 public:
  explicit Exchanges(const Op& op) : groups_(make_local_ranks({.data = kRanks})) {
    const TensorDesc desc{Shape{kElements}, DType::f32, {}};
    const std::array<TensorDesc, 1> tensors = {desc};
    for (const auto& group : groups_) {
      Rank rank{.kernel = cpu_backend().make({.op = op, .in = tensors, .out = tensors, .ranks = group.get()}),
                .data = std::vector<float>(kElements),
                .memory = {}};
      rank.memory.resize((rank.kernel->lasting_bytes() + rank.kernel->scratch_bytes()) / sizeof(float));
      ranks_.push_back(std::move(rank));
    }
    for (Rank& rank : ranks_) {
      std::array<std::byte*, 1> data = {reinterpret_cast<std::byte*>(rank.data.data())};
      rank.kernel->bind(data, data, reinterpret_cast<std::byte*>(rank.memory.data()));
    }
  }

  // The sum that all ranks get of these gradients.
  std::vector<float> sum(const std::function<float(int rank, std::int64_t i)>& gradient) {
    std::vector<std::jthread> threads;
    for (int r = 0; r < kRanks; ++r)
      threads.emplace_back([&, r] {
        Rank& rank = ranks_[static_cast<std::size_t>(r)];
        for (std::int64_t i = 0; i < kElements; ++i) rank.data[static_cast<std::size_t>(i)] = gradient(r, i);
        rank.kernel->run({});
      });
    threads.clear();
    for (const Rank& rank : ranks_) EXPECT_EQ(rank.data, ranks_[0].data) << "every rank has the same sum";
    return ranks_[0].data;
  }

  // What all ranks have not said yet: it comes first in their memory.
  double unsaid(std::int64_t i) const {
    double sum = 0;
    for (const Rank& rank : ranks_) sum += rank.memory[static_cast<std::size_t>(i)];
    return sum;
  }

 private:
  struct Rank {
    KernelPtr kernel;
    std::vector<float> data;
    std::vector<float> memory;
  };
  std::vector<std::unique_ptr<RankGroups>> groups_;
  std::vector<Rank> ranks_;
};

float drawn(int step, int rank, std::int64_t i) {
  std::mt19937 random(static_cast<unsigned>(step * 7919 + rank * 104729 + static_cast<int>(i)));
  return static_cast<float>(static_cast<double>(random()) / 4294967295.0 - 0.5);
}

void expect_nothing_is_lost(Exchanges& exchanges) {
  std::vector<double> given(kElements), said(kElements);
  for (int step = 0; step < 5; ++step) {
    const std::vector<float> sum = exchanges.sum([&](int rank, std::int64_t i) { return drawn(step, rank, i); });
    for (std::int64_t i = 0; i < kElements; ++i) {
      said[static_cast<std::size_t>(i)] += sum[static_cast<std::size_t>(i)];
      for (int rank = 0; rank < kRanks; ++rank) given[static_cast<std::size_t>(i)] += drawn(step, rank, i);
      EXPECT_NEAR(said[static_cast<std::size_t>(i)] + exchanges.unsaid(i), given[static_cast<std::size_t>(i)], 1e-4);
    }
  }
}

TopKAllReduce top_k(std::int64_t keep) {
  TopKAllReduce op;
  op.ranks = kRanks;
  op.keep = keep;
  return op;
}

TEST(TopK, SaysTheLargestAndKeepsTheRest) {
  Exchanges exchanges(top_k(2));
  const std::vector<float> sum = exchanges.sum([](int rank, std::int64_t i) {
    if (i == 10 + rank) return -5.0f;
    return i == 100 ? 3.0f : 0.25f;
  });
  for (std::int64_t i = 0; i < kElements; ++i) {
    const bool is_own_largest = i >= 10 && i < 10 + kRanks;
    EXPECT_EQ(sum[static_cast<std::size_t>(i)], is_own_largest ? -5.0f : i == 100 ? 9.0f : 0.0f) << i;
  }
}

TEST(TopK, LosesNothing) {
  Exchanges exchanges(top_k(60));
  expect_nothing_is_lost(exchanges);
}

TEST(TopK, OfAllIsTheSum) {
  Exchanges exchanges(top_k(kElements));
  const std::vector<float> sum = exchanges.sum([](int rank, std::int64_t i) { return drawn(0, rank, i); });
  for (std::int64_t i = 0; i < kElements; ++i)
    EXPECT_NEAR(sum[static_cast<std::size_t>(i)], drawn(0, 0, i) + drawn(0, 1, i) + drawn(0, 2, i), 1e-6);
}

// Two matrices with something before, between and after them.
LowRankAllReduce low_rank(std::int64_t rank) {
  LowRankAllReduce op;
  op.ranks = kRanks;
  op.rank = rank;
  op.matrices = {{10, 12, 20}, {300, 10, 25}};
  return op;
}

TEST(LowRank, LosesNothing) {
  Exchanges exchanges(low_rank(2));
  expect_nothing_is_lost(exchanges);
}

TEST(LowRank, IsExactWhereTheSumIsOfThatRank) {
  Exchanges exchanges(low_rank(2));
  const auto gradient = [](int rank, std::int64_t i) {
    const auto product = [&](std::int64_t row, std::int64_t column) {
      return static_cast<float>(row - 4) * static_cast<float>(column % 7 - 3) +
             10 * static_cast<float>(rank * (row % 3));
    };
    if (i >= 10 && i < 250) return product((i - 10) / 20, (i - 10) % 20);
    if (i >= 300 && i < 550) return product((i - 300) / 25, (i - 300) % 25);
    return static_cast<float>(i + rank);
  };
  const std::vector<float> sum = exchanges.sum(gradient);
  for (std::int64_t i = 0; i < kElements; ++i)
    EXPECT_NEAR(sum[static_cast<std::size_t>(i)], gradient(0, i) + gradient(1, i) + gradient(2, i), 1e-3) << i;
}

TEST(HalfAllReduce, RoundsTermsAndSumsToTheWiresType) {
  for (const DType wire : {DType::f16, DType::bf16}) {
    HalfAllReduce op;
    op.ranks = kRanks;
    op.wire = wire;
    Exchanges exchanges(op);
    const std::vector<float> sum = exchanges.sum([](int rank, std::int64_t i) { return drawn(0, rank, i); });
    const double unit = wire == DType::f16 ? 0x1p-11 : 0x1p-8;
    double largest = 0;
    for (std::int64_t i = 0; i < kElements; ++i) {
      const double exact = drawn(0, 0, i) + drawn(0, 1, i) + drawn(0, 2, i);
      largest = std::max(largest, std::abs(sum[static_cast<std::size_t>(i)] - exact));
    }
    EXPECT_LE(largest, 3 * unit) << "three terms of at most a half, and a sum of at most 1.5";
    EXPECT_GT(largest, unit / 16) << "it was rounded";
  }
}

TEST(AverageReplicas, IsTheMean) {
  AverageReplicas op;
  op.ranks = kRanks;
  Exchanges exchanges(op);
  const std::vector<float> mean = exchanges.sum([](int rank, std::int64_t i) { return static_cast<float>(rank * i); });
  for (std::int64_t i = 0; i < kElements; ++i)
    EXPECT_FLOAT_EQ(mean[static_cast<std::size_t>(i)], static_cast<float>(i));
}

TEST(GradientExchanges, SayWhatTheySend) {
  const double bytes = kElements * 4;
  HalfAllReduce half;
  EXPECT_DOUBLE_EQ(half.sent_bytes(bytes, bytes, 3), AllReduce{}.sent_bytes(bytes, bytes, 3) / 2);
  EXPECT_DOUBLE_EQ(top_k(60).sent_bytes(bytes, bytes, 3), 2 * 60 * 8);
  // 110 numbers as they are, and (12 + 20 + 10 + 25) x 2.
  EXPECT_DOUBLE_EQ(low_rank(2).sent_bytes(bytes, bytes, 3), 2 * 2.0 / 3 * (110 + 134) * 4);
}

}  // namespace
}  // namespace trifold
