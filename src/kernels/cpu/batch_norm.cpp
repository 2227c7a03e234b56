// Batch norm on the CPU: sums are taken by all threads over their samples of a group, the few per-channel numbers are
// then worked out by one thread, and the next pass uses them. Differences from the mean are taken before anything else
// is done with x, so that a mean which is large against the deviation costs no digits.
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

  Range samples(std::int64_t group) const { return {group * size, (group + 1) * size}; }

  // Runs body(group's samples that are this thread's, thread) on all threads.
  template <class Body>
  void parallel_over(std::int64_t group, Body&& body) const {
    parallel([&](int thread, int threads) {
      const Range range = share(size, thread, threads);
      body(Range{group * size + range.begin, group * size + range.end}, thread, threads);
    });
  }
};

// The length of a per-channel array of floats in scratch memory.
std::size_t padded_channels(const ChannelView& view) {
  return static_cast<std::size_t>((view.channels + 15) / 16 * 16);
}

class StatisticsKernel final : public Kernel {
 public:
  explicit StatisticsKernel(const KernelRequest& request)
      : op_(op_as<BatchNormStatistics>(request)),
        view_(view_of(request.in[0])),
        groups_(request.in[0].shape.batch(), op_.group),
        sums_(2 * view_.channels, request.threads),
        threads_(request.threads) {}

  std::size_t scratch_bytes() const override {
    return sums_.bytes() + static_cast<std::size_t>(threads_) * padded_channels(view_) * sizeof(float);
  }

  void run(const StepContext&) override {
    for (std::int64_t group = 0; group < groups_.count; ++group) {
      int threads_used = 1;
      groups_.parallel_over(group, [&](Range samples, int thread, int threads) {
        // Every thread finds the same centers: that is less work than waiting for one that does.
        batch_norm_loops().center({view_, in(0), centers(thread)}, groups_.samples(group));
        double* sums = sums_.clear(scratch(), thread);
        batch_norm_loops().statistics({view_, in(0), centers(thread), sums, sums + view_.channels}, samples);
        if (thread == 0) threads_used = threads;
      });
      finish(group, threads_used);
    }
  }

 private:
  float* centers(int thread) {
    return reinterpret_cast<float*>(scratch() + sums_.bytes()) +
           static_cast<std::size_t>(thread) * padded_channels(view_);
  }

  void finish(std::int64_t group, int threads) {
    const double count = static_cast<double>(groups_.size * view_.pixels);
    float* running_mean = out(2);
    float* running_var = out(3);
    for (std::int64_t c = 0; c < view_.channels; ++c) {
      // Sums are about a center near the mean, so that the difference of squares loses nothing.
      const double shift = sums_.total(scratch(), c, threads) / count;
      const double squares = sums_.total(scratch(), view_.channels + c, threads) / count;
      const double mean = centers(0)[c] + shift;
      const double variance = std::max(squares - shift * shift, 0.0);  // in this order a NaN stays a NaN
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
  int threads_;
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

// The factors of x - mean: forward multiplies by them and backward asks for the sign of the result, so both must have
// the same bits.
void set_scales(float* scale, const float* istd, const float* gamma, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) scale[c] = gamma[c] * istd[c];
}

class ApplyKernel final : public Kernel {
 public:
  explicit ApplyKernel(const KernelRequest& request)
      : op_(op_as<BatchNormApply>(request)),
        masked_(request.out.size() > 1),
        view_(view_of(request.in[0])),
        groups_(request.in[0].shape.batch(), op_.group) {}

  std::size_t scratch_bytes() const override { return padded_channels(view_) * sizeof(float); }

  void run(const StepContext&) override {
    auto* scale = reinterpret_cast<float*>(scratch());
    for (std::int64_t group = 0; group < groups_.count; ++group) {
      const std::int64_t at = group * view_.channels;
      set_scales(scale, in(2) + at, in(3), view_.channels);
      const BatchNormApplyArgs args{.view = view_,
                                    .x = in(0),
                                    .mean = in(1) + at,
                                    .scale = scale,
                                    .shift = in(4),
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

  std::size_t scratch_bytes() const override { return padded_channels(view_) * sizeof(float) + sums_.bytes(); }

  void run(const StepContext&) override {
    auto* scale = reinterpret_cast<float*>(scratch());
    std::byte* sums_memory = scratch() + padded_channels(view_) * sizeof(float);
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
        set_scales(scale, in(3) + at, in(4), view_.channels);
        args.gate.scale = scale;
        args.gate.shift = in(5);
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

// dx = gamma*istd * (d - sum_d/M - (x-mean) * istd^2 * sum_dx/M), as p*d + q*(x-mean) + r.
class BackwardInputKernel final : public Kernel {
 public:
  explicit BackwardInputKernel(const KernelRequest& request)
      : op_(op_as<BatchNormBackwardInput>(request)),
        view_(view_of(request.in[0])),
        groups_(request.in[0].shape.batch(), op_.group) {}

  std::size_t scratch_bytes() const override { return 4 * padded_channels(view_) * sizeof(float); }

  void run(const StepContext&) override {
    auto* scale = reinterpret_cast<float*>(scratch());
    float* p = scale + padded_channels(view_);
    float* q = p + padded_channels(view_);
    float* r = q + padded_channels(view_);
    const double count = op_.values(view_.pixels);
    for (std::int64_t group = 0; group < groups_.count; ++group) {
      const std::int64_t at = group * view_.channels;
      for (std::int64_t c = 0; c < view_.channels; ++c) {
        const double istd = in(3)[at + c];
        const double slope = in(4)[c] * istd;
        p[c] = static_cast<float>(slope);
        q[c] = static_cast<float>(-slope * istd * istd * in(7)[at + c] / count);
        r[c] = static_cast<float>(-slope * in(6)[at + c] / count);
      }
      BatchNormBackwardInputArgs args{
          .view = view_, .d = in(0), .x = in(1), .mean = in(2) + at, .gate = {}, .p = p, .q = q, .r = r, .dx = out(0)};
      if (op_.mask == ReluMask::from_x) {
        set_scales(scale, in(3) + at, in(4), view_.channels);
        args.gate.scale = scale;
        args.gate.shift = in(5);
      }
      groups_.parallel_over(group, [&](Range samples, int, int) { batch_norm_loops().backward_input(args, samples); });
    }
  }

 private:
  BatchNormBackwardInput op_;
  ChannelView view_;
  Groups groups_;
};

const RegisterKernel register_batch_norm_statistics(cpu_backend(), "batch_norm.statistics",
                                                    make_kernel<StatisticsKernel>);
const RegisterKernel register_batch_norm_running(cpu_backend(), "batch_norm.running", make_kernel<RunningKernel>);
const RegisterKernel register_batch_norm_apply(cpu_backend(), "batch_norm.apply", make_kernel<ApplyKernel>);
const RegisterKernel register_batch_norm_backward_reduce(cpu_backend(), "batch_norm.backward_reduce",
                                                         make_kernel<BackwardReduceKernel>);
const RegisterKernel register_batch_norm_backward_input(cpu_backend(), "batch_norm.backward_input",
                                                        make_kernel<BackwardInputKernel>);

}  // namespace
}  // namespace trifold::cpu
