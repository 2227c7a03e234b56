// Dropout: number e of a sample is dropped when its uniform random number is below the probability. The numbers of
// sample n are those of the stream (seed, dropout, layer, first_sample + n); e is number e % 4 of block e / 4.
#include "kernels/ops/dropout.h"

#include <algorithm>

#include "core/philox.h"
#include "kernels/backend.h"
#include "kernels/reference/element_type.h"

namespace trifold::reference {
namespace {

// What the elements of one tensor are multiplied by: 0 or 1 / (1 - probability).
class Factors {
 public:
  Factors(const DropoutArgs& args, const Shape& x) : args_(args), channels_(x.channels()), pixels_(x.pixels()) {}

  double operator()(const StepContext& context, std::int64_t index) const {
    const std::int64_t pixel = index % pixels_;
    const std::int64_t channel = index / pixels_ % channels_;
    const std::int64_t sample = context.first_sample + index / pixels_ / channels_;
    const std::int64_t whole_channels = args_.whole_channels > 0 ? args_.whole_channels : channels_;
    const std::int64_t whole_channel = args_.first_channel + channel;
    const std::int64_t number =
        args_.channels ? whole_channel : (args_.first_pixel + pixel) * whole_channels + whole_channel;
    const PhiloxBlock block = random_block(context.seed, Purpose::dropout, args_.layer,
                                           static_cast<std::uint64_t>(sample), static_cast<std::uint32_t>(number / 4));
    const float uniform = uniform_from_bits(block[static_cast<std::size_t>(number % 4)]);
    return uniform < static_cast<float>(args_.probability) ? 0.0 : 1 / (1 - args_.probability);
  }

 private:
  DropoutArgs args_;
  std::int64_t channels_;
  std::int64_t pixels_;
};

template <class T>
class DropoutForwardKernel final : public Kernel {
 public:
  explicit DropoutForwardKernel(const KernelRequest& request)
      : relu_(op_as<DropoutForward>(request).relu),
        factors_(op_as<DropoutForward>(request).args, request.in[0].shape),
        elements_(request.in[0].elements()) {}

  void run(const StepContext& context) override {
    for (std::int64_t i = 0; i < elements_; ++i) {
      const double y = in<T>(0)[i] * factors_(context, i);
      out<T>(0)[i] = static_cast<T>(relu_ ? std::max(0.0, y) : y);
    }
  }

 private:
  bool relu_;
  Factors factors_;
  std::int64_t elements_;
};

template <class T>
class DropoutBackwardKernel final : public Kernel {
 public:
  explicit DropoutBackwardKernel(const KernelRequest& request)
      : relu_(op_as<DropoutBackward>(request).relu),
        factors_(op_as<DropoutBackward>(request).args, request.in[0].shape),
        elements_(request.in[0].elements()) {}

  void run(const StepContext& context) override {
    for (std::int64_t i = 0; i < elements_; ++i) {
      const bool on = !relu_ || in<T>(1)[i] > 0;
      out<T>(0)[i] = on ? static_cast<T>(in<T>(0)[i] * factors_(context, i)) : T{0};
    }
  }

 private:
  bool relu_;
  Factors factors_;
  std::int64_t elements_;
};

const RegisterKernel register_dropout_forward(reference_backend(), "dropout.forward",
                                              make_for_type<DropoutForwardKernel<float>, DropoutForwardKernel<double>>);
const RegisterKernel register_dropout_backward(
    reference_backend(), "dropout.backward",
    make_for_type<DropoutBackwardKernel<float>, DropoutBackwardKernel<double>>);

}  // namespace
}  // namespace trifold::reference
