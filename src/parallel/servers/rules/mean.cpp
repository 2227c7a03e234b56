// The mean of all: what all-reduce gives.
#include "parallel/servers/rules/rules.h"
#include "parallel/servers/rules/weighted_sum.h"

namespace trifold {
namespace {

class Mean final : public AggregationRule {
 public:
  std::string_view name() const override { return "mean"; }

  void combine(std::span<const Contribution> contributions, std::span<float> out) const override {
    int shards = 0;
    for (const Contribution& contribution : contributions) shards += contribution.shards;
    const float share = 1.0f / static_cast<float>(shards);
    weighted_sum(
        contributions, [&](std::size_t i) { return static_cast<float>(contributions[i].shards); }, share, out);
  }
  bool combines_in_parts() const override { return true; }
};

}  // namespace

std::unique_ptr<AggregationRule> make_mean(const AggregationArgs&) {
  return std::make_unique<Mean>();
}

}  // namespace trifold
