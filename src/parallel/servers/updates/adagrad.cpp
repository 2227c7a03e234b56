// Adagrad: the CPU kernel's own loop.
#include "kernels/cpu/simd/optimizer_loops.h"
#include "parallel/servers/updates/kinds.h"

namespace trifold {
namespace {

class AdagradUpdate final : public SliceUpdate {
 public:
  explicit AdagradUpdate(const OptimizerArgs& args) : args_(args) {}

  std::vector<std::string> state_names() const override { return {"accumulator"}; }

  void apply(std::span<const float> before, std::span<const float> push, std::span<float> values,
             std::span<float* const> states, const SliceStep& step) const override {
    bring_values(before, values);
    cpu::optimizer_loops().adagrad({.weights = values.data(),
                                    .gradients = push.data(),
                                    .sum = states[0],
                                    .rate = step.rate,
                                    .eps = args_.eps,
                                    .initial = args_.initial_accumulator,
                                    .weight_decay = step.decays ? args_.weight_decay : 0.0},
                                   {0, static_cast<std::int64_t>(values.size())});
  }

 private:
  OptimizerArgs args_;
};

}  // namespace

std::unique_ptr<SliceUpdate> make_adagrad(const OptimizerArgs& args) {
  return std::make_unique<AdagradUpdate>(args);
}

}  // namespace trifold
