// FedAvg, and with momentum FedAvgM (Hsu et al. 2019): velocity = momentum * velocity + change; value += rate *
// velocity. With rate 1 and no momentum the clients' mean is the new model.
#include "parallel/servers/updates/kinds.h"

namespace trifold {
namespace {

class FedAvg final : public SliceUpdate {
 public:
  explicit FedAvg(const FederatedArgs& args) : rate_(static_cast<float>(args.rate)), momentum_(args.momentum) {}

  std::vector<std::string> state_names() const override {
    return momentum_ != 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
  }

  void apply(std::span<const float> before, std::span<const float> push, std::span<float> values,
             std::span<float* const> states, const SliceStep&) const override {
    if (momentum_ == 0) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = before[i] + rate_ * push[i];
      return;
    }
    float* velocity = states[0];
    for (std::size_t i = 0; i < values.size(); ++i) {
      velocity[i] = static_cast<float>(momentum_ * velocity[i] + push[i]);
      values[i] = before[i] + rate_ * velocity[i];
    }
  }

 private:
  float rate_;
  double momentum_;  // a float near 1 would let velocities decay at another rate
};

}  // namespace

std::unique_ptr<SliceUpdate> make_fedavg(const FederatedArgs& args) {
  return std::make_unique<FedAvg>(args);
}

}  // namespace trifold
