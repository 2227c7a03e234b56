// The mean of each number without the least and the largest (Yin et al. 2018).
#include <algorithm>

#include "core/error.h"
#include "parallel/servers/rules/rules.h"
#include "parallel/servers/rules/sorted_columns.h"

namespace trifold {
namespace {

class TrimmedMean final : public AggregationRule {
 public:
  explicit TrimmedMean(double trim) : trim_(trim) {}

  std::string_view name() const override { return "trimmed_mean"; }

  void combine(std::span<const Contribution> contributions, std::span<float> out) const override {
    const std::size_t all = contributions.size();
    // A share such as 0.2 of 5 is meant to be 1, whatever it is in binary.
    const auto cut = std::min(static_cast<std::size_t>(trim_ * static_cast<double>(all) + 1e-9), (all - 1) / 2);
    const float share = 1.0f / static_cast<float>(all - 2 * cut);
    for_sorted_columns(contributions, out, [&](const float* rows, std::size_t count, float* means) {
      std::copy_n(rows + cut * kSortedBlock, count, means);
      for (std::size_t i = cut + 1; i < all - cut; ++i)
        for (std::size_t k = 0; k < count; ++k) means[k] += rows[i * kSortedBlock + k];
      for (std::size_t k = 0; k < count; ++k) means[k] *= share;
    });
  }

 private:
  double trim_;
};

}  // namespace

std::unique_ptr<AggregationRule> make_trimmed_mean(const AggregationArgs& args) {
  if (!(args.trim >= 0 && args.trim < 0.5))
    fail_input("trimmed_mean leaves out a share of {} at each end: it must be from 0 to below 0.5", args.trim);
  return std::make_unique<TrimmedMean>(args.trim);
}

}  // namespace trifold
