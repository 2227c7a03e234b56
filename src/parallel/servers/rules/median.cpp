// The median of each number: half of the workers may lie (Yin et al. 2018). Of an even count, the mean of the two in
// the middle.
#include "parallel/servers/rules/rules.h"
#include "parallel/servers/rules/sorted_columns.h"

namespace trifold {
namespace {

class Median final : public AggregationRule {
 public:
  std::string_view name() const override { return "median"; }

  void combine(std::span<const Contribution> contributions, std::span<float> out) const override {
    const std::size_t upper = contributions.size() / 2;
    const std::size_t lower = (contributions.size() - 1) / 2;
    for_sorted_columns(contributions, out, [&](const float* rows, std::size_t count, float* medians) {
      const float* a = rows + lower * kSortedBlock;
      const float* b = rows + upper * kSortedBlock;
      for (std::size_t k = 0; k < count; ++k) medians[k] = a[k] == b[k] ? a[k] : 0.5f * a[k] + 0.5f * b[k];
    });
  }
};

}  // namespace

std::unique_ptr<AggregationRule> make_median(const AggregationArgs&) {
  return std::make_unique<Median>();
}

}  // namespace trifold
