// The element-wise functions and their gradients, by their formulas in double.
#include "kernels/ops/activation.h"

#include "kernels/backend.h"
#include "kernels/reference/element_type.h"
#include "kernels/scalar_number.h"

namespace trifold::reference {
namespace {

using Number = ScalarNumber<double>;

class Formula {
 public:
  explicit Formula(const ActivationOp& op)
      : function_(op.function), parameters_{Number(op.parameters[0]), Number(op.parameters[1])} {}

  double value(double x) const {
    return with_function(function_, [&](auto function) {
      return AppliedActivation<decltype(function)>::value(Number(x), parameters_).value;
    });
  }
  double gradient(double dy, double kept) const {
    return with_function(function_, [&](auto function) {
      return AppliedActivation<decltype(function)>::gradient(Number(dy), Number(kept), parameters_).value;
    });
  }

 private:
  Activation function_;
  Number parameters_[kMostActivationParameters];
};

template <class T>
class ForwardKernel final : public Kernel {
 public:
  explicit ForwardKernel(const KernelRequest& request)
      : formula_(op_as<ActivationOp>(request)), elements_(request.out[0].elements()) {}

  void run(const StepContext&) override {
    for (std::int64_t i = 0; i < elements_; ++i) out<T>(0)[i] = static_cast<T>(formula_.value(in<T>(0)[i]));
  }

 private:
  Formula formula_;
  std::int64_t elements_;
};

template <class T>
class BackwardKernel final : public Kernel {
 public:
  explicit BackwardKernel(const KernelRequest& request)
      : formula_(op_as<ActivationOp>(request)), elements_(request.out[0].elements()) {}

  void run(const StepContext&) override {
    for (std::int64_t i = 0; i < elements_; ++i)
      out<T>(0)[i] = static_cast<T>(formula_.gradient(in<T>(0)[i], in<T>(1)[i]));
  }

 private:
  Formula formula_;
  std::int64_t elements_;
};

const RegisterKernel register_activation_forward(reference_backend(), "activation.forward",
                                                 make_for_type<ForwardKernel<float>, ForwardKernel<double>>);
const RegisterKernel register_activation_backward(reference_backend(), "activation.backward",
                                                  make_for_type<BackwardKernel<float>, BackwardKernel<double>>);

}  // namespace
}  // namespace trifold::reference
