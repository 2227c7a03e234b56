// Which samples belong to which of N shards of a set: pure functions, so that every member of a cluster comes to the
// same shards by itself. Where shards are parts of every batch ("batch") no sample belongs to one of them for good.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/dataset.h"

namespace trifold {

enum class DivisionKind {
  batch,      // shard i has the i-th N-th of every global batch
  index,      // runs of samples, one after the other
  rank,       // every N-th sample, from i on
  kfold,      // a shuffle, cut into N
  time,       // the oldest samples to shard 0, by Dataset::time()
  dirichlet,  // shares of each class drawn at random: shards that differ in labels and in size
};

struct Division {
  DivisionKind kind = DivisionKind::batch;
  double alpha = 0.5;  // dirichlet: the smaller, the less alike

  bool operator==(const Division&) const = default;
};

const char* name_of(DivisionKind kind);
const std::vector<std::string>& division_names();
DivisionKind parse_division(std::string_view name);  // one of division_names()

// Samples a shard, rising.
using Shards = std::vector<std::vector<std::int64_t>>;

Shards divide_by_index(std::int64_t samples, int shards);
Shards divide_by_rank(std::int64_t samples, int shards);
Shards divide_into_folds(std::int64_t samples, int shards, std::uint64_t seed);
Shards divide_by_time(std::span<const double> times, int shards);  // of the same time: the earlier in the set first
// Hsu et al. 2019. A shard with fewer than `least` samples gets what it lacks from the largest.
Shards divide_by_dirichlet(std::span<const int> labels, int shards, double alpha, std::uint64_t seed,
                           std::int64_t least);

// The set's shards, each of at least `least` samples, as one batch needs; not for DivisionKind::batch. An Error says
// why the set cannot be divided so.
Shards divide(const Dataset& dataset, const Division& division, int shards, std::uint64_t seed, std::int64_t least);

// How uneven they are, as lines: samples and classes a shard. The first line says it in short.
std::string describe_shards(const Dataset& dataset, const Shards& shards);

}  // namespace trifold
