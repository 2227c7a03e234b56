// What FedAdagrad, FedAdam and FedYogi share (Reddi et al. 2021, algorithm 2): moment1 = beta1 * moment1 + (1 - beta1)
// * change; moment2 by the server's own law, from tau^2; value += rate * moment1 / (sqrt(moment2) + tau). There is no
// correction of the first updates.
#pragma once

#include <cmath>

#include "parallel/servers/updates/slice_update.h"

namespace trifold {

// law(moment2, square of the change) is the new moment2. Moments are computed in double, because an average multiplies
// the rounding error of a float beta by 1 / (1 - beta).
template <class Law>
class AdaptiveServer final : public SliceUpdate {
 public:
  AdaptiveServer(const FederatedArgs& args, Law law) : args_(args), law_(law) {}

  std::vector<std::string> state_names() const override { return {"moment1", "moment2"}; }
  std::vector<float> initial_states() const override { return {0.0f, static_cast<float>(args_.tau * args_.tau)}; }

  void apply(std::span<const float> before, std::span<const float> push, std::span<float> values,
             std::span<float* const> states, const SliceStep&) const override {
    float* moment1 = states[0];
    float* moment2 = states[1];
    const auto rate = static_cast<float>(args_.rate), tau = static_cast<float>(args_.tau);
    const double beta1 = args_.beta1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double change = push[i];
      moment1[i] = static_cast<float>(beta1 * moment1[i] + (1 - beta1) * change);
      moment2[i] = static_cast<float>(law_(moment2[i], change * change));
      values[i] = before[i] + rate * moment1[i] / (std::sqrt(moment2[i]) + tau);
    }
  }

 private:
  FederatedArgs args_;
  Law law_;
};

}  // namespace trifold
