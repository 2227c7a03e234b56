// Layer norm, place by place: the channels of place p of sample n lie `pixels` apart.
#include "kernels/ops/layer_norm.h"

#include <cmath>

#include "kernels/backend.h"
#include "kernels/reference/double_sums.h"
#include "kernels/reference/element_type.h"

namespace trifold::reference {
namespace {

class LayerNormPlaces {
 public:
  explicit LayerNormPlaces(const Shape& x) : batch_(x.batch()), channels_(x.channels()), pixels_(x.pixels()) {}

  std::int64_t channels() const { return channels_; }

  // visit(place, index into x of its first channel)
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::int64_t n = 0; n < batch_; ++n)
      for (std::int64_t p = 0; p < pixels_; ++p) visit(n * pixels_ + p, n * channels_ * pixels_ + p);
  }
  // visit(channel, index into x) for the channels of the place that begins at `first`
  template <class Visit>
  void for_each_channel(std::int64_t first, Visit visit) const {
    for (std::int64_t c = 0; c < channels_; ++c) visit(c, first + c * pixels_);
  }

 private:
  std::int64_t batch_, channels_, pixels_;
};

template <class T>
class LayerNormForwardKernel final : public Kernel {
 public:
  explicit LayerNormForwardKernel(const KernelRequest& request)
      : op_(op_as<LayerNormForward>(request)), places_(request.in[0].shape) {}

  void run(const StepContext&) override {
    const auto count = static_cast<double>(places_.channels());
    const T* x = in<T>(0);
    places_.for_each([&](std::int64_t place, std::int64_t first) {
      double sum = 0;
      places_.for_each_channel(first, [&](std::int64_t, std::int64_t i) { sum += x[i]; });
      const double mean = sum / count;
      double squares = 0;
      places_.for_each_channel(first, [&](std::int64_t, std::int64_t i) { squares += (x[i] - mean) * (x[i] - mean); });
      const double istd = 1 / std::sqrt(squares / count + op_.eps);
      places_.for_each_channel(first, [&](std::int64_t c, std::int64_t i) {
        out<T>(0)[i] = static_cast<T>((x[i] - mean) * istd * in<T>(1)[c] + in<T>(2)[c]);
      });
      if (!op_.keep_statistics) return;
      out<T>(1)[place] = static_cast<T>(mean);
      out<T>(2)[place] = static_cast<T>(istd);
    });
  }

 private:
  LayerNormForward op_;
  LayerNormPlaces places_;
};

template <class T>
class LayerNormBackwardInputKernel final : public Kernel {
 public:
  explicit LayerNormBackwardInputKernel(const KernelRequest& request) : places_(request.in[1].shape) {}

  void run(const StepContext&) override {
    const auto count = static_cast<double>(places_.channels());
    places_.for_each([&](std::int64_t place, std::int64_t first) {
      const double mean = in<T>(2)[place];
      const double istd = in<T>(3)[place];
      const auto g = [&](std::int64_t c, std::int64_t i) { return static_cast<double>(in<T>(0)[i]) * in<T>(4)[c]; };
      double sum_g = 0;
      double sum_gx = 0;
      places_.for_each_channel(first, [&](std::int64_t c, std::int64_t i) {
        sum_g += g(c, i);
        sum_gx += g(c, i) * (in<T>(1)[i] - mean);
      });
      places_.for_each_channel(first, [&](std::int64_t c, std::int64_t i) {
        const double from_mean = in<T>(1)[i] - mean;
        out<T>(0)[i] = static_cast<T>(istd * (g(c, i) - sum_g / count - from_mean * istd * istd * sum_gx / count));
      });
    });
  }

 private:
  LayerNormPlaces places_;
};

template <class T>
class LayerNormBackwardParametersKernel final : public Kernel {
 public:
  explicit LayerNormBackwardParametersKernel(const KernelRequest& request) : places_(request.in[1].shape) {}

  std::size_t scratch_bytes() const override { return 2 * DoubleSums::bytes(places_.channels()); }

  void run(const StepContext&) override {
    DoubleSums weight(scratch(), places_.channels());
    DoubleSums bias(scratch() + DoubleSums::bytes(places_.channels()), places_.channels());
    places_.for_each([&](std::int64_t place, std::int64_t first) {
      places_.for_each_channel(first, [&](std::int64_t c, std::int64_t i) {
        const double dy = in<T>(0)[i];
        weight[c] += dy * (in<T>(1)[i] - static_cast<double>(in<T>(2)[place])) * in<T>(3)[place];
        bias[c] += dy;
      });
    });
    weight.store(out<T>(0));
    bias.store(out<T>(1));
  }

 private:
  LayerNormPlaces places_;
};

const RegisterKernel register_layer_norm_forward(
    reference_backend(), "layer_norm.forward",
    make_for_type<LayerNormForwardKernel<float>, LayerNormForwardKernel<double>>);
const RegisterKernel register_layer_norm_backward_input(
    reference_backend(), "layer_norm.backward_input",
    make_for_type<LayerNormBackwardInputKernel<float>, LayerNormBackwardInputKernel<double>>);
const RegisterKernel register_layer_norm_backward_parameters(
    reference_backend(), "layer_norm.backward_parameters",
    make_for_type<LayerNormBackwardParametersKernel<float>, LayerNormBackwardParametersKernel<double>>);

}  // namespace
}  // namespace trifold::reference
