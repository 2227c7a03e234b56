// How the pushes of several workers become one: one file a rule. All work on one slice; contributions come in the order
// of their shards, so the result is the same to the bit whoever came first.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trifold {

struct Contribution {
  const float* values = nullptr;
  double weight = 1;  // above 0: samples behind it, say
  int shards = 1;     // it was made of, by the same rule; their weights are added
};

class AggregationRule {
 public:
  virtual ~AggregationRule() = default;
  virtual std::string_view name() const = 0;
  // Fewer contributions than this it cannot combine.
  virtual int least_contributions() const { return 1; }
  // At least as many contributions; each is as long as `out`, which is none of them.
  virtual void combine(std::span<const Contribution> contributions, std::span<float> out) const = 0;

  // Whether what it makes of some contributions may stand for them among others: workers of a host then combine theirs
  // before one push goes to the servers.
  virtual bool combines_in_parts() const { return false; }

  // A rule that chooses one of the contributions by how far they are from each other should see the whole model, not a
  // slice: whoever has all slices of a round adds up their distances, and takes contribution choose(sum) of every
  // slice. combine() is for a slice that is alone: it goes by its own distances.
  virtual bool needs_distances() const { return false; }
  // distances: [n * n], squared; choose(d) is below n. Only of rules that need them.
  virtual int choose(std::span<const double> distances) const;
};

// Adds the squares of the distances between the contributions, each of `elements`, to `distances` [n * n].
void add_squared_distances(std::span<const Contribution> contributions, std::size_t elements,
                           std::span<double> distances);

struct AggregationArgs {
  std::string rule = "mean";  // mean, weighted_mean, sign_vote, median, trimmed_mean, krum
  double trim = 0.1;          // trimmed_mean: share that is left out at each end, below 0.5
  int byzantine = 1;          // krum: workers that may lie, of at least 2 * byzantine + 3

  bool operator==(const AggregationArgs&) const = default;
};

// Fails on an unknown name, with the known ones.
std::unique_ptr<AggregationRule> make_aggregation(const AggregationArgs& args);
std::vector<std::string> aggregation_names();

}  // namespace trifold
