// The formulas of activations/ pass through the points that their files give, and their gradients are the slopes there.
#include "kernels/ops/activation.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/scalar_number.h"

namespace trifold::reference {
namespace {

using Number = ScalarNumber<double>;

constexpr double kTolerance = 1e-12;

TEST(Activations, PassThroughTheirSamples) {
  for (const Activation activation : kActivations) {
    const ActivationTraits& traits = traits_of(activation);
    const ActivationParameters defaults = default_parameters(activation);
    const Number parameters[] = {defaults[0], defaults[1]};
    for (const ActivationSample& sample : traits.samples) {
      SCOPED_TRACE(std::string(traits.name) + " at " + std::to_string(sample.x));
      const bool from_x = traits.gradient_from == GradientFrom::input;
      with_function(activation, [&](auto function) {
        using Formula = AppliedActivation<decltype(function)>;
        EXPECT_NEAR(Formula::value(Number(sample.x), parameters).value, sample.y, kTolerance);
        const Number kept = from_x ? sample.x : sample.y;
        EXPECT_NEAR(Formula::gradient(Number(2.0), kept, parameters).value, 2 * sample.slope, kTolerance);
      });
    }
  }
}

// Where a function names no kink its slope changes little over a small step; at a kink it changes much.
TEST(Activations, HaveTheirKinksWhereTheySay) {
  constexpr double kStep = 1e-4;
  for (const Activation activation : kActivations) {
    const ActivationTraits& traits = traits_of(activation);
    const ActivationParameters defaults = default_parameters(activation);
    const Number parameters[] = {defaults[0], defaults[1]};
    const auto slope = [&](double x) {
      return with_function(activation, [&](auto function) {
        using Formula = AppliedActivation<decltype(function)>;
        const Number kept =
            traits.gradient_from == GradientFrom::input ? Number(x) : Formula::value(Number(x), parameters);
        return Formula::gradient(Number(1.0), kept, parameters).value;
      });
    };
    for (int i = -1000; i <= 1000; ++i) {
      const double x = 0.01 * i;
      const bool kink = std::ranges::any_of(traits.kinks, [&](double at) { return std::abs(x - at) < kStep; });
      const double change = std::abs(slope(x + kStep / 2) - slope(x - kStep / 2));
      EXPECT_EQ(change > 0.01, kink) << traits.name << " at " << x;
    }
  }
}

}  // namespace
}  // namespace trifold::reference
