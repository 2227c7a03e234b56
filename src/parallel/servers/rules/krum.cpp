// Krum (Blanchard et al. 2017): of n contributions, f of which may be lies, the one that is nearest to its n - f - 2
// nearest others. It speaks of whole models: see needs_distances().
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "parallel/servers/rules/rules.h"

namespace trifold {
namespace {

class Krum final : public AggregationRule {
 public:
  explicit Krum(int byzantine) : byzantine_(byzantine) {}

  std::string_view name() const override { return "krum"; }
  int least_contributions() const override { return 2 * byzantine_ + 3; }
  bool needs_distances() const override { return true; }

  void combine(std::span<const Contribution> contributions, std::span<float> out) const override {
    std::vector<double> distances(contributions.size() * contributions.size(), 0.0);
    add_squared_distances(contributions, out.size(), distances);
    std::copy_n(contributions[static_cast<std::size_t>(choose(distances))].values, out.size(), out.data());
  }

  int choose(std::span<const double> distances) const override {
    const auto count = static_cast<std::size_t>(std::llround(std::sqrt(static_cast<double>(distances.size()))));
    TRIFOLD_CHECK(count * count == distances.size(), "{} distances", distances.size());
    if (count < static_cast<std::size_t>(least_contributions()))
      fail_input("krum against {} that lie needs at least {} contributions, not {}", byzantine_, least_contributions(),
                 count);
    const std::size_t nearest = count - static_cast<std::size_t>(byzantine_) - 2;
    int best = 0;
    double least = std::numeric_limits<double>::infinity();
    std::vector<double> others;
    for (std::size_t i = 0; i < count; ++i) {
      others.clear();
      for (std::size_t j = 0; j < count; ++j)
        if (j != i) others.push_back(usable(distances[i * count + j]));
      std::sort(others.begin(), others.end());
      double score = 0;
      for (std::size_t j = 0; j < nearest; ++j) score += others[j];
      if (score < least) {
        least = score;
        best = static_cast<int>(i);
      }
    }
    return best;
  }

 private:
  // Far from all are those that say what is not a number.
  static double usable(double distance) {
    return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
  }

  int byzantine_;
};

}  // namespace

std::unique_ptr<AggregationRule> make_krum(const AggregationArgs& args) {
  if (args.byzantine < 0) fail_input("krum against {} that lie: it must be 0 or more", args.byzantine);
  return std::make_unique<Krum>(args.byzantine);
}

}  // namespace trifold
