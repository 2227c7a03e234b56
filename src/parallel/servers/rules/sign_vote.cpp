// signSGD with majority vote (Bernstein et al. 2018): every contribution says up or down of each number, weights do not
// count; the result is 1, -1, or 0 where the votes are even.
#include <algorithm>

#include "parallel/servers/rules/rules.h"

namespace trifold {
namespace {

class SignVote final : public AggregationRule {
 public:
  std::string_view name() const override { return "sign_vote"; }

  void combine(std::span<const Contribution> contributions, std::span<float> out) const override {
    std::fill(out.begin(), out.end(), 0.0f);
    constexpr std::size_t kBlock = 2048;
    for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
      float* __restrict votes = out.data() + begin;
      const std::size_t count = std::min(kBlock, out.size() - begin);
      for (const Contribution& contribution : contributions) {
        const float* __restrict values = contribution.values + begin;
        for (std::size_t k = 0; k < count; ++k) votes[k] += sign_of(values[k]);
      }
      for (std::size_t k = 0; k < count; ++k) votes[k] = sign_of(votes[k]);
    }
  }

 private:
  // 0 of what is not a number.
  static float sign_of(float value) { return (value > 0 ? 1.0f : 0.0f) - (value < 0 ? 1.0f : 0.0f); }
};

}  // namespace

std::unique_ptr<AggregationRule> make_sign_vote(const AggregationArgs&) {
  return std::make_unique<SignVote>();
}

}  // namespace trifold
