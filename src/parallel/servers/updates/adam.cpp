// Adam and AdamW: the CPU kernel's own loops. The corrections count the slice's updates.
#include "kernels/cpu/simd/optimizer_loops.h"
#include "parallel/servers/updates/kinds.h"

namespace trifold {
namespace {

class AdamUpdate final : public SliceUpdate {
 public:
  explicit AdamUpdate(const OptimizerArgs& args) : args_(args) {}

  std::vector<std::string> state_names() const override { return {"moment1", "moment2"}; }

  void apply(std::span<const float> before, std::span<const float> push, std::span<float> values,
             std::span<float* const> states, const SliceStep& step) const override {
    bring_values(before, values);
    const cpu::AdamArgs args{.weights = values.data(),
                             .gradients = push.data(),
                             .mean = states[0],
                             .square = states[1],
                             .rate = step.rate,
                             .beta1 = args_.beta1,
                             .beta2 = args_.beta2,
                             .eps = args_.eps,
                             .weight_decay = step.decays ? args_.weight_decay : 0.0,
                             .updates = step.updates};
    const Range all{0, static_cast<std::int64_t>(values.size())};
    if (args_.kind == OptimizerKind::adam)
      cpu::optimizer_loops().adam(args, all);
    else
      cpu::optimizer_loops().adamw(args, all);
  }

 private:
  OptimizerArgs args_;
};

}  // namespace

std::unique_ptr<SliceUpdate> make_adam(const OptimizerArgs& args) {
  return std::make_unique<AdamUpdate>(args);
}

}  // namespace trifold
