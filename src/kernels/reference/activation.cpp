// The element-wise functions and their slopes.
#include "kernels/ops/activation.h"

#include <cmath>

#include "kernels/backend.h"
#include "kernels/reference/element_type.h"

namespace trifold::reference {
namespace {

// P(X <= x) of a standard normal X.
double normal_distribution(double x) {
  return 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
}
double normal_density(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0));
}

double value_of(Activation function, double slope, double x) {
  switch (function) {
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::leaky_relu:
      return x > 0 ? x : slope * x;
    case Activation::gelu:
      return x * normal_distribution(x);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
  }
  return 0;
}

// dy/dx from what is kept: x for gelu, y for all others.
double slope_at(Activation function, double slope, double kept) {
  switch (function) {
    case Activation::relu:
      return kept > 0 ? 1 : 0;
    case Activation::leaky_relu:
      return kept > 0 ? 1 : slope;
    case Activation::gelu:
      return normal_distribution(kept) + kept * normal_density(kept);
    case Activation::sigmoid:
      return kept * (1 - kept);
    case Activation::tanh:
      return 1 - kept * kept;
  }
  return 0;
}

template <class T>
class ForwardKernel final : public Kernel {
 public:
  explicit ForwardKernel(const KernelRequest& request)
      : op_(op_as<ActivationForward>(request)), elements_(request.out[0].elements()) {}

  void run(const StepContext&) override {
    for (std::int64_t i = 0; i < elements_; ++i)
      out<T>(0)[i] = static_cast<T>(value_of(op_.function, op_.slope, in<T>(0)[i]));
  }

 private:
  ActivationForward op_;
  std::int64_t elements_;
};

template <class T>
class BackwardKernel final : public Kernel {
 public:
  explicit BackwardKernel(const KernelRequest& request)
      : op_(op_as<ActivationBackward>(request)), elements_(request.out[0].elements()) {}

  void run(const StepContext&) override {
    for (std::int64_t i = 0; i < elements_; ++i)
      out<T>(0)[i] = static_cast<T>(in<T>(0)[i] * slope_at(op_.function, op_.slope, in<T>(1)[i]));
  }

 private:
  ActivationBackward op_;
  std::int64_t elements_;
};

const RegisterKernel register_activation_forward(reference_backend(), "activation.forward",
                                                 make_for_type<ForwardKernel<float>, ForwardKernel<double>>);
const RegisterKernel register_activation_backward(reference_backend(), "activation.backward",
                                                  make_for_type<BackwardKernel<float>, BackwardKernel<double>>);

}  // namespace
}  // namespace trifold::reference
