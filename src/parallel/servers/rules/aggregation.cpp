// The rules by name, and what they share.
#include "parallel/servers/rules/aggregation.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "parallel/servers/rules/rules.h"

namespace trifold {
namespace {

struct NamedRule {
  const char* name;
  std::unique_ptr<AggregationRule> (*make)(const AggregationArgs& args);
};
constexpr std::array kRules = {NamedRule{"mean", make_mean},
                               NamedRule{"weighted_mean", make_weighted_mean},
                               NamedRule{"sign_vote", make_sign_vote},
                               NamedRule{"median", make_median},
                               NamedRule{"trimmed_mean", make_trimmed_mean},
                               NamedRule{"krum", make_krum}};

constexpr std::size_t kDistanceLanes = 8;

// In lanes of double: as exact for a large slice as for many small ones, and without waiting for one sum.
double squared_distance(const float* a, const float* b, std::size_t elements) {
  double sums[kDistanceLanes] = {};
  std::size_t i = 0;
  for (; i + kDistanceLanes <= elements; i += kDistanceLanes) {
    for (std::size_t lane = 0; lane < kDistanceLanes; ++lane) {
      const double difference = static_cast<double>(a[i + lane]) - static_cast<double>(b[i + lane]);
      sums[lane] += difference * difference;
    }
  }
  double total = 0;
  for (; i < elements; ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    total += difference * difference;
  }
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

int AggregationRule::choose(std::span<const double>) const {
  TRIFOLD_CHECK(needs_distances(), "{} chooses nobody", name());
  return 0;
}

void add_squared_distances(std::span<const Contribution> contributions, std::size_t elements,
                           std::span<double> distances) {
  const std::size_t count = contributions.size();
  TRIFOLD_CHECK(distances.size() == count * count, "{} distances of {} contributions", distances.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j) {
      const double distance = squared_distance(contributions[i].values, contributions[j].values, elements);
      distances[i * count + j] += distance;
      distances[j * count + i] += distance;
    }
  }
}

std::unique_ptr<AggregationRule> make_aggregation(const AggregationArgs& args) {
  for (const NamedRule& rule : kRules)
    if (args.rule == rule.name) return rule.make(args);
  std::string known;
  for (const std::string& name : aggregation_names()) known += (known.empty() ? "" : ", ") + name;
  fail_input("unknown aggregation rule '{}': known are {}", args.rule, known);
}

std::vector<std::string> aggregation_names() {
  std::vector<std::string> names;
  for (const NamedRule& rule : kRules) names.emplace_back(rule.name);
  return names;
}

}  // namespace trifold
