// Convolution as a set of taps: triples (x, w, y) of places that belong together. All three ops are sums over the same
// taps: y += x * w, dx += dy * w, dw += x * dy.
#include "kernels/ops/conv2d.h"

#include "kernels/backend.h"
#include "kernels/reference/double_sums.h"
#include "kernels/reference/element_type.h"

namespace trifold::reference {
namespace {

// Calls visit(x index, w index, y index) for every tap inside the image.
template <class Visit>
void for_each_tap(const Conv2dArgs& args, const Shape& x, const Shape& w, const Shape& y, Visit visit) {
  const std::int64_t out_per_group = w[0] / args.groups;
  const std::int64_t in_per_group = w[1];
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t o = 0; o < y[1]; ++o)
      for (std::int64_t p = 0; p < y[2]; ++p)
        for (std::int64_t q = 0; q < y[3]; ++q)
          for (std::int64_t i = 0; i < in_per_group; ++i)
            for (std::int64_t r = 0; r < w[2]; ++r)
              for (std::int64_t s = 0; s < w[3]; ++s) {
                const std::int64_t h = p * args.stride[0] - args.pad[0] + r * args.dilation[0];
                const std::int64_t v = q * args.stride[1] - args.pad[1] + s * args.dilation[1];
                if (h < 0 || h >= x[2] || v < 0 || v >= x[3]) continue;
                const std::int64_t channel = o / out_per_group * in_per_group + i;
                visit(((n * x[1] + channel) * x[2] + h) * x[3] + v,    // x
                      ((o * in_per_group + i) * w[2] + r) * w[3] + s,  // w
                      ((n * y[1] + o) * y[2] + p) * y[3] + q);         // y
              }
}

template <class T>
class Conv2dForwardKernel final : public Kernel {
 public:
  explicit Conv2dForwardKernel(const KernelRequest& request)
      : op_(op_as<Conv2dForward>(request)),
        x_(request.in[0].shape),
        w_(request.in[1].shape),
        y_(request.out[0].shape) {}

  std::size_t scratch_bytes() const override { return DoubleSums::bytes(y_.elements()); }

  void run(const StepContext&) override {
    DoubleSums sums(scratch(), y_.elements());
    for_each_tap(op_.args, x_, w_, y_, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
      sums[y] += static_cast<double>(in<T>(0)[x]) * in<T>(1)[w];
    });
    const std::int64_t pixels = y_.pixels();
    for (std::int64_t i = 0; i < y_.elements(); ++i) {
      if (op_.bias) sums[i] += in<T>(2)[i / pixels % y_[1]];
      if (op_.relu) sums[i] = std::max(0.0, sums[i]);
    }
    sums.store(out<T>(0));
  }

 private:
  Conv2dForward op_;
  Shape x_, w_, y_;
};

template <class T>
class Conv2dBackwardDataKernel final : public Kernel {
 public:
  explicit Conv2dBackwardDataKernel(const KernelRequest& request)
      : args_(op_as<Conv2dBackwardData>(request).args),
        y_(request.in[0].shape),
        w_(request.in[1].shape),
        x_(request.out[0].shape) {}

  std::size_t scratch_bytes() const override { return DoubleSums::bytes(x_.elements()); }

  void run(const StepContext&) override {
    DoubleSums sums(scratch(), x_.elements());
    for_each_tap(args_, x_, w_, y_, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
      sums[x] += static_cast<double>(in<T>(0)[y]) * in<T>(1)[w];
    });
    sums.store(out<T>(0));
  }

 private:
  Conv2dArgs args_;
  Shape y_, w_, x_;
};

template <class T>
class Conv2dBackwardWeightsKernel final : public Kernel {
 public:
  explicit Conv2dBackwardWeightsKernel(const KernelRequest& request)
      : op_(op_as<Conv2dBackwardWeights>(request)),
        x_(request.in[0].shape),
        y_(request.in[1].shape),
        w_(request.out[0].shape) {}

  std::size_t scratch_bytes() const override { return DoubleSums::bytes(w_.elements()); }

  void run(const StepContext&) override {
    DoubleSums sums(scratch(), w_.elements());
    for_each_tap(op_.args, x_, w_, y_, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
      sums[w] += static_cast<double>(in<T>(0)[x]) * in<T>(1)[y];
    });
    sums.store(out<T>(0));
    if (!op_.bias) return;
    const std::int64_t pixels = y_.pixels();
    for (std::int64_t o = 0; o < y_[1]; ++o) {
      double sum = 0;
      for (std::int64_t n = 0; n < y_[0]; ++n)
        for (std::int64_t p = 0; p < pixels; ++p) sum += in<T>(1)[(n * y_[1] + o) * pixels + p];
      out<T>(1)[o] = static_cast<T>(sum);
    }
  }

 private:
  Conv2dBackwardWeights op_;
  Shape x_, y_, w_;
};

const RegisterKernel register_conv2d_forward(reference_backend(), "conv2d.forward",
                                             make_for_type<Conv2dForwardKernel<float>, Conv2dForwardKernel<double>>);
const RegisterKernel register_conv2d_backward_data(
    reference_backend(), "conv2d.backward_data",
    make_for_type<Conv2dBackwardDataKernel<float>, Conv2dBackwardDataKernel<double>>);
const RegisterKernel register_conv2d_backward_weights(
    reference_backend(), "conv2d.backward_weights",
    make_for_type<Conv2dBackwardWeightsKernel<float>, Conv2dBackwardWeightsKernel<double>>);

}  // namespace
}  // namespace trifold::reference
