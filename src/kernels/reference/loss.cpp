// The losses and log-softmax, row by row. A gradient may be written over the input: a row is read before it is written.
#include "kernels/ops/loss.h"

#include <cmath>

#include "kernels/backend.h"
#include "kernels/reference/element_type.h"

namespace trifold::reference {
namespace {

// The report is f64 whatever the type of the rest.
bool is_report(const KernelRequest&, Op::Side side, std::size_t index) {
  return side == Op::Side::out && index == 0;
}

struct Rows {
  std::int64_t count = 0;
  std::int64_t width = 0;

  explicit Rows(const Shape& shape) : count(shape[0]), width(shape[1]) {}
};

template <class T>
std::int64_t first_maximum(const T* row, std::int64_t width) {
  std::int64_t best = 0;
  for (std::int64_t k = 1; k < width; ++k)
    if (row[k] > row[best]) best = k;
  return best;
}

// log(sum(exp(row))), without overflow
template <class T>
double log_sum_exp(const T* row, std::int64_t width) {
  const double largest = row[first_maximum(row, width)];
  double sum = 0;
  for (std::int64_t k = 0; k < width; ++k) sum += std::exp(row[k] - largest);
  return largest + std::log(sum);
}

template <class T>
class LogSoftmaxForwardKernel final : public Kernel {
 public:
  explicit LogSoftmaxForwardKernel(const KernelRequest& request) : rows_(request.in[0].shape) {}

  void run(const StepContext&) override {
    for (std::int64_t n = 0; n < rows_.count; ++n) {
      const T* x = in<T>(0) + n * rows_.width;
      const double normaliser = log_sum_exp(x, rows_.width);
      for (std::int64_t k = 0; k < rows_.width; ++k) out<T>(0)[n * rows_.width + k] = static_cast<T>(x[k] - normaliser);
    }
  }

 private:
  Rows rows_;
};

template <class T>
class LogSoftmaxBackwardKernel final : public Kernel {
 public:
  explicit LogSoftmaxBackwardKernel(const KernelRequest& request) : rows_(request.in[0].shape) {}

  void run(const StepContext&) override {
    for (std::int64_t n = 0; n < rows_.count; ++n) {
      const T* dy = in<T>(0) + n * rows_.width;
      const T* y = in<T>(1) + n * rows_.width;
      double sum = 0;
      for (std::int64_t k = 0; k < rows_.width; ++k) sum += dy[k];
      for (std::int64_t k = 0; k < rows_.width; ++k)
        out<T>(0)[n * rows_.width + k] = static_cast<T>(dy[k] - std::exp(static_cast<double>(y[k])) * sum);
    }
  }

 private:
  Rows rows_;
};

template <class T>
class CrossEntropyKernel final : public Kernel {
 public:
  explicit CrossEntropyKernel(const KernelRequest& request)
      : op_(op_as<CrossEntropy>(request)), rows_(request.in[0].shape) {}

  void run(const StepContext& context) override {
    const double share = 1 / (static_cast<double>(op_.global_batch) * (weighted() ? context.mean_class_weight : 1.0));
    double loss = 0;
    double correct = 0;
    for (std::int64_t n = 0; n < rows_.count; ++n) {
      const T* x = in<T>(0) + n * rows_.width;
      T* gradient = op_.gradient ? out<T>(1) + n * rows_.width : nullptr;
      const std::int64_t label = in<std::int32_t>(1)[n];
      if (label < 0) {
        for (std::int64_t k = 0; op_.gradient && k < rows_.width; ++k) gradient[k] = 0;
        continue;
      }
      if (first_maximum(x, rows_.width) == label) correct += 1;
      double targets = 0;  // their sum
      for (std::int64_t k = 0; k < rows_.width; ++k) targets += target(k, label);
      const double normaliser = op_.log_input ? 0.0 : log_sum_exp(x, rows_.width);
      for (std::int64_t k = 0; k < rows_.width; ++k) {
        const double log_p = x[k] - normaliser;
        loss -= share * target(k, label) * log_p;
        const double probability = op_.log_input ? 0.0 : std::exp(log_p);
        if (op_.gradient) gradient[k] = static_cast<T>(share * (probability * targets - target(k, label)));
      }
    }
    out<double>(0)[0] = loss;
    out<double>(0)[1] = correct;
  }

 private:
  bool weighted() const { return !op_.class_weights.empty(); }
  double target(std::int64_t k, std::int64_t label) const {
    const double weight = weighted() ? op_.class_weights[static_cast<std::size_t>(k)] : 1.0;
    return weight * ((k == label ? 1 - op_.smoothing : 0.0) + op_.smoothing / static_cast<double>(rows_.width));
  }

  CrossEntropy op_;
  Rows rows_;
};

template <class T>
class MeanSquaresKernel final : public Kernel {
 public:
  explicit MeanSquaresKernel(const KernelRequest& request)
      : op_(op_as<MeanSquares>(request)), rows_(request.in[0].shape) {}

  void run(const StepContext&) override {
    const double share = 1 / (static_cast<double>(rows_.width) * static_cast<double>(op_.global_batch));
    double loss = 0;
    for (std::int64_t n = 0; n < rows_.count; ++n) {
      const bool present = in<std::int32_t>(2)[n] >= 0;
      for (std::int64_t i = n * rows_.width; i < (n + 1) * rows_.width; ++i) {
        const double difference = present ? static_cast<double>(in<T>(0)[i]) - in<T>(1)[i] : 0.0;
        loss += difference * difference * share;
        if (op_.gradient) out<T>(1)[i] = static_cast<T>(2 * difference * share);
      }
    }
    out<double>(0)[0] = loss;
    out<double>(0)[1] = 0;
  }

 private:
  MeanSquares op_;
  Rows rows_;
};

const RegisterKernel register_loss_log_softmax_forward(
    reference_backend(), "log_softmax.forward",
    make_for_type<LogSoftmaxForwardKernel<float>, LogSoftmaxForwardKernel<double>>);
const RegisterKernel register_loss_log_softmax_backward(
    reference_backend(), "log_softmax.backward",
    make_for_type<LogSoftmaxBackwardKernel<float>, LogSoftmaxBackwardKernel<double>>);
const RegisterKernel register_loss_cross_entropy(
    reference_backend(), "cross_entropy",
    make_for_type<CrossEntropyKernel<float>, CrossEntropyKernel<double>, is_report>);
const RegisterKernel register_loss_mean_squares(
    reference_backend(), "mse", make_for_type<MeanSquaresKernel<float>, MeanSquaresKernel<double>, is_report>);

}  // namespace
}  // namespace trifold::reference
