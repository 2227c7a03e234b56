// The updates, parameter by parameter, with the meaning they have in torch.optim (sgd without dampening, adam, adamw);
// lars is algorithm 1 of You, Gitman and Ginsburg 2017: a local rate per parameter, and a velocity that contains the
// learning rate. State starts at zero.
#include "kernels/ops/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/backend.h"
#include "kernels/reference/element_type.h"

namespace trifold::reference {
namespace {

// The loss scale is f32 and the report f64, whatever the type of parameters, gradients and state.
bool has_own_type(const KernelRequest& request, Op::Side side, std::size_t index) {
  const auto& op = op_as<OptimizerUpdate>(request);
  const std::size_t after_state = static_cast<std::size_t>(op.state_count()) + (side == Op::Side::in ? 2 : 1);
  return (op.scaling && index == after_state) || (side == Op::Side::out && index + 1 == request.out.size());
}

template <class T>
double norm_of(const T* values, const ParameterSegment& segment) {
  double squares = 0;
  for (std::int64_t i = segment.begin; i < segment.end; ++i) squares += static_cast<double>(values[i]) * values[i];
  return std::sqrt(squares);
}

template <class T>
class UpdateKernel final : public Kernel {
 public:
  explicit UpdateKernel(const KernelRequest& request) : op_(op_as<OptimizerUpdate>(request)) {}

  void run(const StepContext& context) override {
    const OptimizerArgs& a = op_.args;
    const LossScaleStep step = loss_scale_step(op_, op_.scaling ? loss_scale() : nullptr, all_finite(), context);
    double norm = 0;
    if (a.clip_norm > 0 && op_.squares_given)
      norm = std::sqrt(given_squares()) * step.unscale;
    else if (a.clip_norm > 0)
      for (const ParameterSegment& segment : op_.segments)
        norm = std::hypot(norm, norm_of(in<T>(1), segment) * step.unscale);
    // torch.nn.utils.clip_grad_norm_
    const double scale = step.unscale * (a.clip_norm > 0 ? std::min(1.0, a.clip_norm / (norm + 1e-6)) : 1.0);
    out<double>(static_cast<std::size_t>(op_.state_count()) + (op_.scaling ? 2 : 1))[0] = norm;
    if (step.skip) return;
    for (const ParameterSegment& segment : op_.segments) {
      if (a.kind == OptimizerKind::adam || a.kind == OptimizerKind::adamw)
        update_adam(segment, scale, context.learning_rate, static_cast<double>(step.updates));
      else if (a.kind == OptimizerKind::adagrad)
        update_adagrad(segment, scale, context.learning_rate);
      else
        update_sgd(segment, scale, context.learning_rate);
    }
  }

 private:
  float* loss_scale() const { return out<float>(static_cast<std::size_t>(op_.state_count()) + 1); }
  double given_squares() const { return in<T>(static_cast<std::size_t>(op_.state_count()) + (op_.scaling ? 3 : 2))[0]; }

  bool all_finite() const {
    if (!op_.scaling) return true;
    if (op_.squares_given) return std::isfinite(given_squares());
    for (const ParameterSegment& segment : op_.segments)
      for (std::int64_t i = segment.begin; i < segment.end; ++i)
        if (!std::isfinite(in<T>(1)[i])) return false;
    return true;
  }

  double decay_of(const ParameterSegment& segment) const { return segment.decay ? op_.args.weight_decay : 0.0; }

  // LARS: how far this parameter may move, from the norms of itself and its gradient.
  double local_rate(const ParameterSegment& segment, double scale) const {
    if (!segment.decay) return 1;
    const double w = norm_of(in<T>(0), segment);
    const double g = norm_of(in<T>(1), segment) * scale;
    return w > 0 && g > 0 ? op_.args.trust * w / (g + op_.args.weight_decay * w) : 1;
  }

  void update_sgd(const ParameterSegment& segment, double scale, double learning_rate) {
    const OptimizerArgs& a = op_.args;
    // LARS applies the learning rate before the momentum, SGD after it.
    const bool lars = a.kind == OptimizerKind::lars;
    const double before = lars ? learning_rate * local_rate(segment, scale) : 1;
    const double after = lars ? 1 : learning_rate;
    for (std::int64_t i = segment.begin; i < segment.end; ++i) {
      const double w = in<T>(0)[i];
      double step = before * (in<T>(1)[i] * scale + decay_of(segment) * w);
      if (op_.state_count() == 1) {
        const double velocity = a.momentum * in<T>(2)[i] + step;
        out<T>(1)[i] = static_cast<T>(velocity);
        step = a.nesterov ? step + a.momentum * velocity : velocity;
      }
      out<T>(0)[i] = static_cast<T>(w - after * step);
    }
  }

  void update_adam(const ParameterSegment& segment, double scale, double rate, double updates) {
    const OptimizerArgs& a = op_.args;
    const double correction1 = 1 - std::pow(a.beta1, updates);
    const double correction2 = 1 - std::pow(a.beta2, updates);
    for (std::int64_t i = segment.begin; i < segment.end; ++i) {
      double w = in<T>(0)[i];
      double g = in<T>(1)[i] * scale;
      if (a.kind == OptimizerKind::adam)
        g += decay_of(segment) * w;
      else
        w -= rate * decay_of(segment) * w;
      const double m = a.beta1 * in<T>(2)[i] + (1 - a.beta1) * g;
      const double v = a.beta2 * in<T>(3)[i] + (1 - a.beta2) * g * g;
      out<T>(1)[i] = static_cast<T>(m);
      out<T>(2)[i] = static_cast<T>(v);
      out<T>(0)[i] = static_cast<T>(w - rate * (m / correction1) / (std::sqrt(v / correction2) + a.eps));
    }
  }

  void update_adagrad(const ParameterSegment& segment, double scale, double rate) {
    const OptimizerArgs& a = op_.args;
    for (std::int64_t i = segment.begin; i < segment.end; ++i) {
      const double w = in<T>(0)[i];
      const double g = in<T>(1)[i] * scale + decay_of(segment) * w;
      const double sum = in<T>(2)[i] + g * g;
      out<T>(1)[i] = static_cast<T>(sum);
      out<T>(0)[i] = static_cast<T>(w - rate * g / (std::sqrt(sum + a.initial_accumulator) + a.eps));
    }
  }

  OptimizerUpdate op_;
};

template <class T>
class SquaresKernel final : public Kernel {
 public:
  explicit SquaresKernel(const KernelRequest& request) : op_(op_as<GradientSquares>(request)) {}

  void run(const StepContext&) override {
    double sum = 0;
    for (const ParameterSegment& segment : op_.segments)
      for (std::int64_t i = segment.begin; i < segment.end; ++i) sum += static_cast<double>(in<T>(0)[i]) * in<T>(0)[i];
    out<T>(0)[0] = static_cast<T>(sum);
  }

 private:
  GradientSquares op_;
};

template <class T>
class AccumulateKernel final : public Kernel {
 public:
  explicit AccumulateKernel(const KernelRequest& request)
      : first_(op_as<AccumulateGradients>(request).first), elements_(request.in[0].elements()) {}

  void run(const StepContext&) override {
    for (std::int64_t i = 0; i < elements_; ++i) out<T>(0)[i] = first_ ? in<T>(1)[i] : in<T>(0)[i] + in<T>(1)[i];
  }

 private:
  bool first_;
  std::int64_t elements_;
};

const RegisterKernel register_optimizer_update(reference_backend(), "optimizer.update",
                                               make_for_type<UpdateKernel<float>, UpdateKernel<double>, has_own_type>);
const RegisterKernel register_optimizer_squares(reference_backend(), "optimizer.squares",
                                                make_for_type<SquaresKernel<float>, SquaresKernel<double>>);
const RegisterKernel register_optimizer_accumulate(reference_backend(), "optimizer.accumulate",
                                                   make_for_type<AccumulateKernel<float>, AccumulateKernel<double>>);

}  // namespace
}  // namespace trifold::reference
