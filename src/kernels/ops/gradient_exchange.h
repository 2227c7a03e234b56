// How replicas add up their gradients with fewer bytes, or seldom. Each works on the flat buffer of all gradients, in
// place. What a rank left unsaid, compression keeps and adds to the next step's gradients (error feedback).
#pragma once

#include <fmt/format.h>

#include "kernels/ops/collective.h"

namespace trifold {

struct GradientExchange : Exchange {
  int ranks = 1;  // of the axis

  std::vector<int> in_place(int) const override { return {0}; }
  bool keeps_f32(Side, int) const override { return true; }
};

// The sum of every rank's x, of which 16 bits a number are sent: each rank adds up its part in float and rounds the sum
// once more. All ranks get the same bits.
struct HalfAllReduce final : GradientExchange {
  DType wire = DType::bf16;

  std::string_view name() const override { return "all_reduce.half"; }
  std::string attributes() const override { return fmt::format("{} {}", name_of(axis), name_of(wire)); }
  double sent_bytes(double in, double, double among) const override { return (among - 1) / among * in; }
};

// Every rank sends the `keep` elements of its x that are largest by magnitude; out: their sum, and zero elsewhere.
struct TopKAllReduce final : GradientExchange {
  std::int64_t keep = 1;

  std::string_view name() const override { return "all_reduce.top_k"; }
  std::string attributes() const override { return fmt::format("{} {} elements", name_of(axis), keep); }
  double sent_bytes(double, double, double among) const override {
    return (among - 1) * 8.0 * static_cast<double>(keep);
  }
};

// PowerSGD (Vogels et al. 2019): of a matrix the product of two thin ones is sent, `rank` columns each; the best such
// product, step by step, since each begins where the last one ended. What is no matrix is sent as it is. A matrix is a
// run of x in equal rows, as many as its parameter's first dimension.
struct LowRankAllReduce final : GradientExchange {
  struct Matrix {
    std::int64_t begin = 0;
    std::int64_t rows = 0;
    std::int64_t columns = 0;

    std::int64_t end() const { return begin + rows * columns; }
  };
  std::vector<Matrix> matrices;  // in their order, apart from each other
  std::int64_t rank = 2;

  std::string_view name() const override { return "all_reduce.low_rank"; }
  std::string attributes() const override { return fmt::format("{} rank {}", name_of(axis), rank); }
  double sent_bytes(double in, double, double among) const override;
};

// The mean of every rank's x.
struct AverageReplicas final : GradientExchange {
  std::string_view name() const override { return "average"; }
  std::string attributes() const override { return name_of(axis); }
  double sent_bytes(double in, double, double among) const override { return 2 * (among - 1) / among * in; }
};

}  // namespace trifold
