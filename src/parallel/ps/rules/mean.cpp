// The mean of all: what all-reduce gives.
#include "parallel/ps/rules/rules.h"
#include "parallel/ps/rules/weighted_sum.h"

namespace trifold {
namespace {

class Mean final : public AggregationRule {
 public:
  std::string_view name() const override { return "mean"; }

  void combine(std::span<const Contribution> contributions, std::span<float> out) const override {
    const float share = 1.0f / static_cast<float>(contributions.size());
    weighted_sum(
        contributions, [](std::size_t) { return 1.0f; }, share, out);
  }
};

}  // namespace

std::unique_ptr<AggregationRule> make_mean(const AggregationArgs&) {
  return std::make_unique<Mean>();
}

}  // namespace trifold
