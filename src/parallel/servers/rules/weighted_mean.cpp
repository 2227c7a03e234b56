// The mean by weights, such as the samples behind each contribution.
#include "core/error.h"
#include "parallel/servers/rules/rules.h"
#include "parallel/servers/rules/weighted_sum.h"

namespace trifold {
namespace {

class WeightedMean final : public AggregationRule {
 public:
  std::string_view name() const override { return "weighted_mean"; }

  void combine(std::span<const Contribution> contributions, std::span<float> out) const override {
    double sum = 0;
    for (const Contribution& contribution : contributions) {
      TRIFOLD_CHECK(contribution.weight > 0, "a contribution of weight {}", contribution.weight);
      sum += contribution.weight;
    }
    weighted_sum(
        contributions, [&](std::size_t i) { return static_cast<float>(contributions[i].weight / sum); }, 1.0f, out);
  }
  bool combines_in_parts() const override { return true; }
};

}  // namespace

std::unique_ptr<AggregationRule> make_weighted_mean(const AggregationArgs&) {
  return std::make_unique<WeightedMean>();
}

}  // namespace trifold
