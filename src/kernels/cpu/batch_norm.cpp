// Batch norm on the CPU: sums are taken by all threads over their samples of a group, the few per-channel numbers are
// then worked out by one thread, and the next pass uses them.
#include "kernels/ops/batch_norm.h"

#include <cmath>

#include "kernels/backend.h"
#include "kernels/cpu/channel_ops.h"
#include "kernels/cpu/simd/batch_norm_loops.h"

namespace trifold::cpu {
namespace {

// The groups of a batch, and the range of samples of one.
struct Groups {
  std::int64_t size;  // samples in a group
  std::int64_t count;

  Groups(std::int64_t batch, std::int64_t group) : size(group), count(batch / group) {}

  // Runs body(group's samples that are this thread's, thread) on all threads.
  template <class Body>
  void parallel_over(std::int64_t group, Body&& body) const {
    parallel([&](int thread, int threads) {
      const Range range = share(size, thread, threads);
      body(Range{group * size + range.begin, group * size + range.end}, thread, threads);
    });
  }
};

class StatisticsKernel final : public Kernel {
 public:
  explicit StatisticsKernel(const KernelRequest& request)
      : op_(op_as<BatchNormStatistics>(request)),
        view_(view_of(request.in[0])),
        groups_(request.in[0].shape.batch(), op_.group),
        sums_(2 * view_.channels, request.threads) {}

  std::size_t scratch_bytes() const override { return sums_.bytes(); }

  void run(const StepContext&) override {
    for (std::int64_t group = 0; group < groups_.count; ++group) {
      int threads_used = 1;
      groups_.parallel_over(group, [&](Range samples, int thread, int threads) {
        double* sums = sums_.clear(scratch(), thread);
        batch_norm_loops().statistics({view_, in(0), in(1), sums, sums + view_.channels}, samples);
        if (thread == 0) threads_used = threads;
      });
      finish(group, threads_used);
    }
  }

 private:
  void finish(std::int64_t group, int threads) {
    const double count = static_cast<double>(groups_.size * view_.pixels);
    float* running_mean = out(2);
    float* running_var = out(3);
    for (std::int64_t c = 0; c < view_.channels; ++c) {
      // Sums are about the running mean: near the true one, so that the difference of squares loses nothing.
      const double shift = sums_.total(scratch(), c, threads) / count;
      const double squares = sums_.total(scratch(), view_.channels + c, threads) / count;
      const double mean = running_mean[c] + shift;
      const double variance = std::max(0.0, squares - shift * shift);
      out(0)[group * view_.channels + c] = static_cast<float>(mean);
      out(1)[group * view_.channels + c] = static_cast<float>(1.0 / std::sqrt(variance + op_.eps));
      const double unbiased = count > 1 ? variance * count / (count - 1) : variance;
      running_mean[c] += static_cast<float>(op_.momentum * (mean - running_mean[c]));
      running_var[c] += static_cast<float>(op_.momentum * (unbiased - running_var[c]));
    }
  }

  BatchNormStatistics op_;
  ChannelView view_;
  Groups groups_;
  ThreadSums sums_;
};

class RunningKernel final : public Kernel {
 public:
  explicit RunningKernel(const KernelRequest& request)
      : eps_(op_as<BatchNormRunning>(request).eps), channels_(request.in[0].elements()) {}

  void run(const StepContext&) override {
    for (std::int64_t c = 0; c < channels_; ++c) {
      out(0)[c] = in(0)[c];
      out(1)[c] = static_cast<float>(1.0 / std::sqrt(static_cast<double>(in(1)[c]) + eps_));
    }
  }

 private:
  double eps_;
  std::int64_t channels_;
};

// y = x * scale + shift, in terms of the statistics: what forward applies and backward asks for the sign of.
struct ScaleShift {
  float* scale;
  float* shift;

  ScaleShift(std::byte* memory, std::int64_t channels)
      : scale(reinterpret_cast<float*>(memory)), shift(scale + (channels + 15) / 16 * 16) {}
  static std::size_t bytes(std::int64_t channels) {
    return static_cast<std::size_t>((channels + 15) / 16 * 32) * sizeof(float);
  }

  void set(const float* mean, const float* istd, const float* gamma, const float* beta, std::int64_t channels) {
    for (std::int64_t c = 0; c < channels; ++c) {
      scale[c] = gamma[c] * istd[c];
      shift[c] = beta[c] - scale[c] * mean[c];
    }
  }
};

class ApplyKernel final : public Kernel {
 public:
  explicit ApplyKernel(const KernelRequest& request)
      : op_(op_as<BatchNormApply>(request)),
        masked_(request.out.size() > 1),
        view_(view_of(request.in[0])),
        groups_(request.in[0].shape.batch(), op_.group) {}

  std::size_t scratch_bytes() const override { return ScaleShift::bytes(view_.channels); }

  void run(const StepContext&) override {
    ScaleShift affine(scratch(), view_.channels);
    for (std::int64_t group = 0; group < groups_.count; ++group) {
      const std::int64_t at = group * view_.channels;
      affine.set(in(1) + at, in(2) + at, in(3), in(4), view_.channels);
      const BatchNormApplyArgs args{.view = view_,
                                    .x = in(0),
                                    .scale = affine.scale,
                                    .shift = affine.shift,
                                    .residual = op_.residual ? in(5) : nullptr,
                                    .relu = op_.relu,
                                    .y = out(0),
                                    .mask = masked_ ? out<std::uint8_t>(1) : nullptr};
      groups_.parallel_over(group, [&](Range samples, int, int) { batch_norm_loops().apply(args, samples); });
    }
  }

 private:
  BatchNormApply op_;
  bool masked_;
  ChannelView view_;
  Groups groups_;
};

class BackwardReduceKernel final : public Kernel {
 public:
  explicit BackwardReduceKernel(const KernelRequest& request)
      : op_(op_as<BatchNormBackwardReduce>(request)),
        view_(view_of(request.in[0])),
        groups_(request.in[0].shape.batch(), op_.group),
        sums_(2 * view_.channels, request.threads) {}

  std::size_t scratch_bytes() const override { return ScaleShift::bytes(view_.channels) + sums_.bytes(); }

  void run(const StepContext&) override {
    std::byte* sums_memory = scratch() + ScaleShift::bytes(view_.channels);
    ScaleShift affine(scratch(), view_.channels);
    std::fill_n(out(2), view_.channels, 0.0f);
    std::fill_n(out(3), view_.channels, 0.0f);
    for (std::int64_t group = 0; group < groups_.count; ++group) {
      const std::int64_t at = group * view_.channels;
      BatchNormBackwardReduceArgs args{};
      args.view = view_;
      args.dy = in(0);
      args.x = in(1);
      args.mean = in(2) + at;
      std::size_t next = 6;
      if (op_.second_gradient) args.dy2 = in(next++);
      if (op_.mask == ReluMask::bits) args.gate.mask = in<std::uint8_t>(next);
      if (op_.mask == ReluMask::from_x) {
        affine.set(in(2) + at, in(3) + at, in(4), in(5), view_.channels);
        args.gate.scale = affine.scale;
        args.gate.shift = affine.shift;
      }
      if (op_.write_d) args.d = out(4);
      int threads_used = 1;
      groups_.parallel_over(group, [&](Range samples, int thread, int threads) {
        BatchNormBackwardReduceArgs mine = args;
        mine.sum_d = sums_.clear(sums_memory, thread);
        mine.sum_dx = mine.sum_d + view_.channels;
        batch_norm_loops().backward_reduce(mine, samples);
        if (thread == 0) threads_used = threads;
      });
      for (std::int64_t c = 0; c < view_.channels; ++c) {
        const double sum_d = sums_.total(sums_memory, c, threads_used);
        const double sum_dx = sums_.total(sums_memory, view_.channels + c, threads_used);
        out(0)[at + c] = static_cast<float>(sum_d);
        out(1)[at + c] = static_cast<float>(sum_dx);
        out(2)[c] += static_cast<float>(sum_dx * in(3)[at + c]);
        out(3)[c] += static_cast<float>(sum_d);
      }
    }
  }

 private:
  BatchNormBackwardReduce op_;
  ChannelView view_;
  Groups groups_;
  ThreadSums sums_;
};

// dx = gamma*istd * (d - sum_d/M - (x-mean) * istd^2 * sum_dx/M), as p*d + q*x + r.
class BackwardInputKernel final : public Kernel {
 public:
  explicit BackwardInputKernel(const KernelRequest& request)
      : op_(op_as<BatchNormBackwardInput>(request)),
        view_(view_of(request.in[0])),
        groups_(request.in[0].shape.batch(), op_.group) {}

  std::size_t scratch_bytes() const override {
    return ScaleShift::bytes(view_.channels) + 3 * padded() * sizeof(float);
  }

  void run(const StepContext&) override {
    ScaleShift affine(scratch(), view_.channels);
    float* p = reinterpret_cast<float*>(scratch() + ScaleShift::bytes(view_.channels));
    float* q = p + padded();
    float* r = q + padded();
    const double count = op_.values(view_.pixels);
    for (std::int64_t group = 0; group < groups_.count; ++group) {
      const std::int64_t at = group * view_.channels;
      for (std::int64_t c = 0; c < view_.channels; ++c) {
        const double istd = in(3)[at + c];
        const double slope = in(4)[c] * istd;
        const double from_x = -slope * istd * istd * in(7)[at + c] / count;
        p[c] = static_cast<float>(slope);
        q[c] = static_cast<float>(from_x);
        r[c] = static_cast<float>(-slope * in(6)[at + c] / count - from_x * in(2)[at + c]);
      }
      BatchNormBackwardInputArgs args{
          .view = view_, .d = in(0), .x = in(1), .gate = {}, .p = p, .q = q, .r = r, .dx = out(0)};
      if (op_.mask == ReluMask::from_x) {
        affine.set(in(2) + at, in(3) + at, in(4), in(5), view_.channels);
        args.gate.scale = affine.scale;
        args.gate.shift = affine.shift;
      }
      groups_.parallel_over(group, [&](Range samples, int, int) { batch_norm_loops().backward_input(args, samples); });
    }
  }

 private:
  std::size_t padded() const { return static_cast<std::size_t>((view_.channels + 15) / 16 * 16); }

  BatchNormBackwardInput op_;
  ChannelView view_;
  Groups groups_;
};

const RegisterKernel statistics(cpu_backend(), "batch_norm.statistics", make_kernel<StatisticsKernel>);
const RegisterKernel running(cpu_backend(), "batch_norm.running", make_kernel<RunningKernel>);
const RegisterKernel apply(cpu_backend(), "batch_norm.apply", make_kernel<ApplyKernel>);
const RegisterKernel backward_reduce(cpu_backend(), "batch_norm.backward_reduce", make_kernel<BackwardReduceKernel>);
const RegisterKernel backward_input(cpu_backend(), "batch_norm.backward_input", make_kernel<BackwardInputKernel>);

}  // namespace
}  // namespace trifold::cpu
