// Batch norm in its parts, over x seen as [N, C, pixels] with one set of statistics a group and channel.
// Masks here are one bit an element in row-major order, lowest bit first, ceil(elements / 8) bytes; a backend may use
// an order of its own, so a mask is read only by the backend that wrote it.
#include "kernels/ops/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "kernels/backend.h"
#include "kernels/reference/element_type.h"

namespace trifold::reference {
namespace {

// The places of x that share statistics.
struct Groups {
  std::int64_t group = 0;  // samples each
  std::int64_t channels = 0;
  std::int64_t pixels = 0;
  std::int64_t count = 0;  // of groups

  Groups(const Shape& x, std::int64_t samples)
      : group(samples), channels(x.channels()), pixels(x.pixels()), count(x.batch() / samples) {
    TRIFOLD_CHECK(x.batch() % samples == 0, "a group of {} does not divide {} samples", samples, x.batch());
  }

  std::int64_t values() const { return group * pixels; }  // a channel of one group

  // visit(index into x) for all values of one channel of one group
  template <class Visit>
  void for_each(std::int64_t g, std::int64_t channel, Visit visit) const {
    for (std::int64_t n = g * group; n < (g + 1) * group; ++n)
      for (std::int64_t p = 0; p < pixels; ++p) visit((n * channels + channel) * pixels + p);
  }
};

bool bit_of(const std::uint8_t* mask, std::int64_t index) {
  return (mask[index / 8] >> (index % 8) & 1) != 0;
}
void set_bit(std::uint8_t* mask, std::int64_t index) {
  mask[index / 8] = static_cast<std::uint8_t>(mask[index / 8] | 1u << (index % 8));
}

struct Affine {
  double mean, istd, gamma, beta;
  double operator()(double x) const { return (x - mean) * istd * gamma + beta; }
};

template <class T>
class StatisticsKernel final : public Kernel {
 public:
  explicit StatisticsKernel(const KernelRequest& request)
      : op_(op_as<BatchNormStatistics>(request)), groups_(request.in[0].shape, op_.group) {
    // A part that is joined with others may be a single value.
    TRIFOLD_CHECK(groups_.values() > 1 || op_.momentum == 0, "the variance of one value is not defined");
  }

  void run(const StepContext&) override {
    const double count = static_cast<double>(groups_.values());
    for (std::int64_t c = 0; c < groups_.channels; ++c) {
      double running_mean = in<T>(1)[c];
      double running_var = in<T>(2)[c];
      for (std::int64_t g = 0; g < groups_.count; ++g) {
        double sum = 0;
        groups_.for_each(g, c, [&](std::int64_t i) { sum += in<T>(0)[i]; });
        const double mean = sum / count;
        double squares = 0;
        groups_.for_each(g, c, [&](std::int64_t i) { squares += (in<T>(0)[i] - mean) * (in<T>(0)[i] - mean); });
        out<T>(0)[g * groups_.channels + c] = static_cast<T>(mean);
        out<T>(1)[g * groups_.channels + c] = static_cast<T>(1 / std::sqrt(squares / count + op_.eps));
        running_mean += op_.momentum * (mean - running_mean);
        if (count > 1) running_var += op_.momentum * (squares / (count - 1) - running_var);
      }
      out<T>(2)[c] = static_cast<T>(running_mean);
      out<T>(3)[c] = static_cast<T>(running_var);
    }
  }

 private:
  BatchNormStatistics op_;
  Groups groups_;
};

template <class T>
class RunningKernel final : public Kernel {
 public:
  explicit RunningKernel(const KernelRequest& request)
      : eps_(op_as<BatchNormRunning>(request).eps), channels_(request.in[0].shape[0]) {}

  void run(const StepContext&) override {
    for (std::int64_t c = 0; c < channels_; ++c) {
      out<T>(0)[c] = in<T>(0)[c];
      out<T>(1)[c] = static_cast<T>(1 / std::sqrt(in<T>(1)[c] + eps_));
    }
  }

 private:
  double eps_;
  std::int64_t channels_;
};

template <class T>
class ApplyKernel final : public Kernel {
 public:
  explicit ApplyKernel(const KernelRequest& request)
      : op_(op_as<BatchNormApply>(request)),
        groups_(request.in[0].shape, op_.group),
        elements_(request.in[0].elements()),
        writes_mask_(request.out.size() > 1) {}

  void run(const StepContext&) override {
    std::uint8_t* mask = writes_mask_ ? out<std::uint8_t>(1) : nullptr;
    if (mask != nullptr) std::fill(mask, mask + (elements_ + 7) / 8, std::uint8_t{0});
    for (std::int64_t g = 0; g < groups_.count; ++g)
      for (std::int64_t c = 0; c < groups_.channels; ++c) {
        const std::int64_t s = g * groups_.channels + c;
        const Affine affine{in<T>(1)[s], in<T>(2)[s], in<T>(3)[c], in<T>(4)[c]};
        groups_.for_each(g, c, [&](std::int64_t i) {
          double y = affine(in<T>(0)[i]);
          if (op_.residual) y += in<T>(5)[i];
          if (op_.relu) y = std::max(0.0, y);
          if (mask != nullptr && y > 0) set_bit(mask, i);
          out<T>(0)[i] = static_cast<T>(y);
        });
      }
  }

 private:
  BatchNormApply op_;
  Groups groups_;
  std::int64_t elements_;
  bool writes_mask_;
};

template <class T>
class BackwardReduceKernel final : public Kernel {
 public:
  explicit BackwardReduceKernel(const KernelRequest& request)
      : op_(op_as<BatchNormBackwardReduce>(request)), groups_(request.in[1].shape, op_.group) {}

  void run(const StepContext&) override {
    const std::uint8_t* mask = op_.mask == ReluMask::bits ? in<std::uint8_t>(op_.second_gradient ? 7 : 6) : nullptr;
    for (std::int64_t c = 0; c < groups_.channels; ++c) {
      double dgamma = 0;
      double dbeta = 0;
      for (std::int64_t g = 0; g < groups_.count; ++g) {
        const std::int64_t s = g * groups_.channels + c;
        const Affine affine{in<T>(2)[s], in<T>(3)[s], in<T>(4)[c], in<T>(5)[c]};
        double sum_d = 0;
        double sum_dx = 0;
        groups_.for_each(g, c, [&](std::int64_t i) {
          const double x = in<T>(1)[i];
          double d = in<T>(0)[i];
          if (op_.second_gradient) d += in<T>(6)[i];
          if (op_.mask == ReluMask::from_x && !(affine(x) > 0)) d = 0;
          if (op_.mask == ReluMask::bits && !bit_of(mask, i)) d = 0;
          if (op_.write_d) out<T>(4)[i] = static_cast<T>(d);
          sum_d += d;
          sum_dx += d * (x - affine.mean);
        });
        out<T>(0)[s] = static_cast<T>(sum_d);
        out<T>(1)[s] = static_cast<T>(sum_dx);
        dgamma += sum_dx * affine.istd;
        dbeta += sum_d;
      }
      out<T>(2)[c] = static_cast<T>(dgamma);
      out<T>(3)[c] = static_cast<T>(dbeta);
    }
  }

 private:
  BatchNormBackwardReduce op_;
  Groups groups_;
};

template <class T>
class BackwardInputKernel final : public Kernel {
 public:
  explicit BackwardInputKernel(const KernelRequest& request)
      : op_(op_as<BatchNormBackwardInput>(request)), groups_(request.in[1].shape, op_.group) {}

  void run(const StepContext&) override {
    const double count = op_.values(groups_.pixels);
    for (std::int64_t g = 0; g < groups_.count; ++g)
      for (std::int64_t c = 0; c < groups_.channels; ++c) {
        const std::int64_t s = g * groups_.channels + c;
        const Affine affine{in<T>(2)[s], in<T>(3)[s], in<T>(4)[c], in<T>(5)[c]};
        const double mean_d = in<T>(6)[s] / count;
        const double slope = in<T>(7)[s] / count * affine.istd * affine.istd;
        groups_.for_each(g, c, [&](std::int64_t i) {
          const double x = in<T>(1)[i];
          double d = in<T>(0)[i];
          if (op_.mask == ReluMask::from_x && !(affine(x) > 0)) d = 0;
          out<T>(0)[i] = static_cast<T>(affine.gamma * affine.istd * (d - mean_d - (x - affine.mean) * slope));
        });
      }
  }

 private:
  BatchNormBackwardInput op_;
  Groups groups_;
};

const RegisterKernel register_batch_norm_statistics(reference_backend(), "batch_norm.statistics",
                                                    make_for_type<StatisticsKernel<float>, StatisticsKernel<double>>);
const RegisterKernel register_batch_norm_running(reference_backend(), "batch_norm.running",
                                                 make_for_type<RunningKernel<float>, RunningKernel<double>>);
const RegisterKernel register_batch_norm_apply(reference_backend(), "batch_norm.apply",
                                               make_for_type<ApplyKernel<float>, ApplyKernel<double>>);
const RegisterKernel register_batch_norm_backward_reduce(
    reference_backend(), "batch_norm.backward_reduce",
    make_for_type<BackwardReduceKernel<float>, BackwardReduceKernel<double>>);
const RegisterKernel register_batch_norm_backward_input(
    reference_backend(), "batch_norm.backward_input",
    make_for_type<BackwardInputKernel<float>, BackwardInputKernel<double>>);

}  // namespace
}  // namespace trifold::reference
