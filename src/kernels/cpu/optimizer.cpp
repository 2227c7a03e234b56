// Optimiser updates on the CPU: one pass over the flat buffers, threads share them evenly whatever the parameters'
// sizes.
#include "kernels/ops/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/backend.h"
#include "kernels/cpu/simd/element_loops.h"
#include "kernels/cpu/simd/optimizer_loops.h"

namespace trifold::cpu {
namespace {

constexpr std::int64_t kUpdateGrain = 1024;
constexpr int kMaxThreads = 256;

double sum_of_squares(const float* x, Range range) {
  double sums[kMaxThreads] = {};
  parallel([&](int thread, int threads) {
    const Range part = share(range.size(), thread, threads, kUpdateGrain);
    sums[thread] = optimizer_loops().sum_of_squares(x, {range.begin + part.begin, range.begin + part.end});
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

class UpdateKernel final : public Kernel {
 public:
  explicit UpdateKernel(const KernelRequest& request)
      : op_(op_as<OptimizerUpdate>(request)), elements_(request.in[0].elements()) {}

  void run(const StepContext& context) override {
    double norm = 0;
    // Squares of gradients beyond 1e19 overflow: those count as not finite too.
    const auto states = static_cast<std::size_t>(op_.state_count());
    if (op_.squares_given)
      norm = std::sqrt(in(2 + states + (op_.scaling ? 1 : 0))[0]);
    else if (op_.needs_squares())
      norm = std::sqrt(sum_of_squares(in(1), {0, elements_}));
    const LossScaleStep step =
        loss_scale_step(op_, op_.scaling ? out(1 + states) : nullptr, std::isfinite(norm), context);
    norm *= step.unscale;
    double gradient_scale = step.unscale;
    if (op_.args.clip_norm > 0) gradient_scale *= std::min(1.0, op_.args.clip_norm / (norm + 1e-6));
    out<double>(1 + states + (op_.scaling ? 1 : 0))[0] = op_.args.clip_norm > 0 ? norm : 0;
    if (step.skip) return;
    if (op_.args.kind == OptimizerKind::lars) {
      for (const ParameterSegment& segment : op_.segments) lars(segment, context, gradient_scale);
      return;
    }
    parallel_for(
        elements_,
        [&](Range mine) {
          for (const ParameterSegment& segment : op_.segments) {
            const Range part{std::max(mine.begin, segment.begin), std::min(mine.end, segment.end)};
            if (part.empty()) continue;
            const double decay = segment.decay ? op_.args.weight_decay : 0.0;
            if (op_.args.kind == OptimizerKind::sgd)
              sgd(part, context.learning_rate, decay, gradient_scale);
            else if (op_.args.kind == OptimizerKind::adagrad)
              adagrad(part, context.learning_rate, decay, gradient_scale);
            else
              adam(part, context.learning_rate, step.updates, decay, gradient_scale);
          }
        },
        kUpdateGrain);
  }

 private:
  void sgd(Range range, double rate, double decay, double gradient_scale) const {
    optimizer_loops().sgd({.weights = out(0),
                           .gradients = in(1),
                           .velocity = op_.state_count() > 0 ? out(1) : nullptr,
                           .rate = rate,
                           .momentum = op_.args.momentum,
                           .weight_decay = decay,
                           .nesterov = op_.args.nesterov,
                           .gradient_scale = gradient_scale},
                          range);
  }

  void adam(Range range, double rate, std::int64_t updates, double decay, double gradient_scale) const {
    const AdamArgs args{.weights = out(0),
                        .gradients = in(1),
                        .mean = out(1),
                        .square = out(2),
                        .rate = rate,
                        .beta1 = op_.args.beta1,
                        .beta2 = op_.args.beta2,
                        .eps = op_.args.eps,
                        .weight_decay = decay,
                        .updates = updates,
                        .gradient_scale = gradient_scale};
    if (op_.args.kind == OptimizerKind::adam)
      optimizer_loops().adam(args, range);
    else
      optimizer_loops().adamw(args, range);
  }

  void adagrad(Range range, double rate, double decay, double gradient_scale) const {
    optimizer_loops().adagrad({.weights = out(0),
                               .gradients = in(1),
                               .sum = out(1),
                               .rate = rate,
                               .eps = op_.args.eps,
                               .initial = op_.args.initial_accumulator,
                               .weight_decay = decay,
                               .gradient_scale = gradient_scale},
                              range);
  }

  // You, Gitman and Ginsburg (2017): the learning rate and the parameter's local rate, trust * |w| / (|g| + decay *
  // |w|), scale what enters the velocity, which is then subtracted from the weights as it is.
  void lars(const ParameterSegment& segment, const StepContext& context, double gradient_scale) const {
    double local = 1;
    const double decay = segment.decay ? op_.args.weight_decay : 0.0;
    if (segment.decay) {
      const double weight = std::sqrt(sum_of_squares(in(0), {segment.begin, segment.end}));
      const double gradient = gradient_scale * std::sqrt(sum_of_squares(in(1), {segment.begin, segment.end}));
      if (weight > 0 && gradient > 0) local = op_.args.trust * weight / (gradient + decay * weight);
    }
    const double rate = context.learning_rate * local;
    parallel_for(
        segment.end - segment.begin,
        [&](Range range) {
          sgd({segment.begin + range.begin, segment.begin + range.end}, 1, rate * decay, rate * gradient_scale);
        },
        kUpdateGrain);
  }

  OptimizerUpdate op_;
  std::int64_t elements_;
};

class SquaresKernel final : public Kernel {
 public:
  explicit SquaresKernel(const KernelRequest& request) : op_(op_as<GradientSquares>(request)) {}

  void run(const StepContext&) override {
    double sum = 0;
    for (const ParameterSegment& segment : op_.segments) sum += sum_of_squares(in(0), {segment.begin, segment.end});
    out(0)[0] = static_cast<float>(sum);
  }

 private:
  GradientSquares op_;
};

class AccumulateKernel final : public Kernel {
 public:
  explicit AccumulateKernel(const KernelRequest& request)
      : first_(op_as<AccumulateGradients>(request).first), elements_(request.in[0].elements()) {}

  void run(const StepContext&) override {
    parallel_for(
        elements_,
        [&](Range range) {
          if (first_)
            std::copy(in(1) + range.begin, in(1) + range.end, out(0) + range.begin);
          else
            element_loops().add_in_place(in(1), out(0), range);
        },
        kUpdateGrain);
  }

 private:
  bool first_;
  std::int64_t elements_;
};

const RegisterKernel register_optimizer_update(cpu_backend(), "optimizer.update", make_kernel<UpdateKernel>);
const RegisterKernel register_optimizer_squares(cpu_backend(), "optimizer.squares", make_kernel<SquaresKernel>);
const RegisterKernel register_optimizer_accumulate(cpu_backend(), "optimizer.accumulate",
                                                   make_kernel<AccumulateKernel>);

}  // namespace
}  // namespace trifold::cpu
