// SGD, with momentum and Nesterov's: the CPU kernel's own loop.
#include "kernels/cpu/simd/optimizer_loops.h"
#include "parallel/servers/updates/kinds.h"

namespace trifold {
namespace {

class SgdUpdate final : public SliceUpdate {
 public:
  explicit SgdUpdate(const OptimizerArgs& args) : args_(args) {}

  std::vector<std::string> state_names() const override {
    return args_.momentum != 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
  }

  void apply(std::span<const float> before, std::span<const float> push, std::span<float> values,
             std::span<float* const> states, const SliceStep& step) const override {
    bring_values(before, values);
    cpu::optimizer_loops().sgd({.weights = values.data(),
                                .gradients = push.data(),
                                .velocity = args_.momentum != 0 ? states[0] : nullptr,
                                .rate = step.rate,
                                .momentum = args_.momentum,
                                .weight_decay = step.decays ? args_.weight_decay : 0.0,
                                .nesterov = args_.nesterov},
                               {0, static_cast<std::int64_t>(values.size())});
  }

 private:
  OptimizerArgs args_;
};

}  // namespace

std::unique_ptr<SliceUpdate> make_sgd(const OptimizerArgs& args) {
  return std::make_unique<SgdUpdate>(args);
}

}  // namespace trifold
