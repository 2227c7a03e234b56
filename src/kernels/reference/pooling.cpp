// Pooling over windows, each a run over its places that lie inside the image; and over the whole image.
#include "kernels/ops/pooling.h"

#include "kernels/backend.h"
#include "kernels/reference/double_sums.h"
#include "kernels/reference/element_type.h"

namespace trifold::reference {
namespace {

// The windows of [N,C,H,W] -> [N,C,H',W'].
struct Windows {
  PoolArgs args;
  Shape x, y;

  // visit(place in the window: row * kernel width + column, x index) for those of window y_index inside the image
  template <class Visit>
  void for_each_place(std::int64_t y_index, Visit visit) const {
    const std::int64_t q = y_index % y[3];
    const std::int64_t p = y_index / y[3] % y[2];
    const std::int64_t plane = y_index / y[3] / y[2];
    for (std::int64_t r = 0; r < args.kernel[0]; ++r)
      for (std::int64_t s = 0; s < args.kernel[1]; ++s) {
        const std::int64_t h = p * args.stride[0] - args.pad[0] + r;
        const std::int64_t w = q * args.stride[1] - args.pad[1] + s;
        if (h >= 0 && h < x[2] && w >= 0 && w < x[3]) visit(r * args.kernel[1] + s, (plane * x[2] + h) * x[3] + w);
      }
  }

  // What the sum of a window is divided by.
  double divisor(std::int64_t y_index, const PoolDivisor& by) const {
    if (by.count_pad) return static_cast<double>(args.kernel[0] * args.kernel[1]);
    double inside = 0;
    for_each_place(y_index, [&](std::int64_t, std::int64_t x_index) {
      const std::int64_t h = x_index / x[3] % x[2];
      if (h >= by.pad_above && h < x[2] - by.pad_below) inside += 1;
    });
    return inside;
  }
};

template <class T>
class MaxPoolForwardKernel final : public Kernel {
 public:
  explicit MaxPoolForwardKernel(const KernelRequest& request)
      : keep_argmax_(op_as<MaxPoolForward>(request).keep_argmax),
        windows_{op_as<MaxPoolForward>(request).args, request.in[0].shape, request.out[0].shape} {}

  void run(const StepContext&) override {
    for (std::int64_t i = 0; i < windows_.y.elements(); ++i) {
      bool empty = true;
      T best = 0;
      std::int64_t argmax = 0;
      windows_.for_each_place(i, [&](std::int64_t place, std::int64_t x) {
        if (!empty && !(in<T>(0)[x] > best)) return;
        empty = false;
        best = in<T>(0)[x];
        argmax = place;
      });
      out<T>(0)[i] = best;
      if (keep_argmax_) out<std::uint8_t>(1)[i] = static_cast<std::uint8_t>(argmax);
    }
  }

 private:
  bool keep_argmax_;
  Windows windows_;
};

template <class T>
class MaxPoolBackwardKernel final : public Kernel {
 public:
  explicit MaxPoolBackwardKernel(const KernelRequest& request)
      : relu_(op_as<MaxPoolBackward>(request).relu),
        windows_{op_as<MaxPoolBackward>(request).args, request.out[0].shape, request.in[0].shape} {}

  std::size_t scratch_bytes() const override { return DoubleSums::bytes(windows_.x.elements()); }

  void run(const StepContext&) override {
    DoubleSums sums(scratch(), windows_.x.elements());
    for (std::int64_t i = 0; i < windows_.y.elements(); ++i) {
      if (relu_ && !(in<T>(2)[i] > 0)) continue;
      windows_.for_each_place(i, [&](std::int64_t place, std::int64_t x) {
        if (place == in<std::uint8_t>(1)[i]) sums[x] += in<T>(0)[i];
      });
    }
    sums.store(out<T>(0));
  }

 private:
  bool relu_;
  Windows windows_;
};

template <class T>
class AvgPoolForwardKernel final : public Kernel {
 public:
  explicit AvgPoolForwardKernel(const KernelRequest& request)
      : divisor_(op_as<AvgPoolForward>(request).divisor),
        windows_{op_as<AvgPoolForward>(request).args, request.in[0].shape, request.out[0].shape} {}

  void run(const StepContext&) override {
    for (std::int64_t i = 0; i < windows_.y.elements(); ++i) {
      double sum = 0;
      windows_.for_each_place(i, [&](std::int64_t, std::int64_t x) { sum += in<T>(0)[x]; });
      out<T>(0)[i] = static_cast<T>(sum / windows_.divisor(i, divisor_));
    }
  }

 private:
  PoolDivisor divisor_;
  Windows windows_;
};

template <class T>
class AvgPoolBackwardKernel final : public Kernel {
 public:
  explicit AvgPoolBackwardKernel(const KernelRequest& request)
      : divisor_(op_as<AvgPoolBackward>(request).divisor),
        windows_{op_as<AvgPoolBackward>(request).args, request.out[0].shape, request.in[0].shape} {}

  std::size_t scratch_bytes() const override { return DoubleSums::bytes(windows_.x.elements()); }

  void run(const StepContext&) override {
    DoubleSums sums(scratch(), windows_.x.elements());
    for (std::int64_t i = 0; i < windows_.y.elements(); ++i) {
      const double part = in<T>(0)[i] / windows_.divisor(i, divisor_);
      windows_.for_each_place(i, [&](std::int64_t, std::int64_t x) { sums[x] += part; });
    }
    sums.store(out<T>(0));
  }

 private:
  PoolDivisor divisor_;
  Windows windows_;
};

template <class T>
class GlobalAvgPoolForwardKernel final : public Kernel {
 public:
  explicit GlobalAvgPoolForwardKernel(const KernelRequest& request)
      : planes_(request.out[0].elements()),
        pixels_(request.in[0].shape.pixels()),
        whole_(op_as<GlobalAvgPoolForward>(request).pixels) {
    if (whole_ == 0) whole_ = pixels_;
  }

  void run(const StepContext&) override {
    for (std::int64_t plane = 0; plane < planes_; ++plane) {
      double sum = 0;
      for (std::int64_t p = 0; p < pixels_; ++p) sum += in<T>(0)[plane * pixels_ + p];
      out<T>(0)[plane] = static_cast<T>(sum / static_cast<double>(whole_));
    }
  }

 private:
  std::int64_t planes_;
  std::int64_t pixels_;
  std::int64_t whole_;  // pixels of an image
};

template <class T>
class GlobalAvgPoolBackwardKernel final : public Kernel {
 public:
  explicit GlobalAvgPoolBackwardKernel(const KernelRequest& request)
      : planes_(request.in[0].elements()),
        pixels_(request.out[0].shape.pixels()),
        whole_(op_as<GlobalAvgPoolBackward>(request).pixels) {
    if (whole_ == 0) whole_ = pixels_;
  }

  void run(const StepContext&) override {
    for (std::int64_t i = 0; i < planes_ * pixels_; ++i)
      out<T>(0)[i] = static_cast<T>(in<T>(0)[i / pixels_] / static_cast<double>(whole_));
  }

 private:
  std::int64_t planes_;
  std::int64_t pixels_;
  std::int64_t whole_;  // pixels of an image
};

const RegisterKernel register_pooling_max_forward(
    reference_backend(), "max_pool.forward", make_for_type<MaxPoolForwardKernel<float>, MaxPoolForwardKernel<double>>);
const RegisterKernel register_pooling_max_backward(
    reference_backend(), "max_pool.backward",
    make_for_type<MaxPoolBackwardKernel<float>, MaxPoolBackwardKernel<double>>);
const RegisterKernel register_pooling_avg_forward(
    reference_backend(), "avg_pool.forward", make_for_type<AvgPoolForwardKernel<float>, AvgPoolForwardKernel<double>>);
const RegisterKernel register_pooling_avg_backward(
    reference_backend(), "avg_pool.backward",
    make_for_type<AvgPoolBackwardKernel<float>, AvgPoolBackwardKernel<double>>);
const RegisterKernel register_pooling_global_forward(
    reference_backend(), "global_avg_pool.forward",
    make_for_type<GlobalAvgPoolForwardKernel<float>, GlobalAvgPoolForwardKernel<double>>);
const RegisterKernel register_pooling_global_backward(
    reference_backend(), "global_avg_pool.backward",
    make_for_type<GlobalAvgPoolBackwardKernel<float>, GlobalAvgPoolBackwardKernel<double>>);

}  // namespace
}  // namespace trifold::reference
