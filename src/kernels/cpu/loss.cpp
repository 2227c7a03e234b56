// Losses on the CPU: threads share the rows; their reports are added in thread order.
#include "kernels/ops/loss.h"

#include "kernels/backend.h"
#include "kernels/cpu/simd/loss_loops.h"

namespace trifold::cpu {
namespace {

class LogSoftmaxForwardKernel final : public Kernel {
 public:
  explicit LogSoftmaxForwardKernel(const KernelRequest& request)
      : rows_(request.in[0].shape[0]), classes_(request.in[0].shape[1]) {}

  void run(const StepContext&) override {
    parallel_for(rows_, [&](Range rows) { loss_loops().log_softmax_forward({classes_, in(0), out(0)}, rows); });
  }

 private:
  std::int64_t rows_;
  std::int64_t classes_;
};

class LogSoftmaxBackwardKernel final : public Kernel {
 public:
  explicit LogSoftmaxBackwardKernel(const KernelRequest& request)
      : rows_(request.in[0].shape[0]), classes_(request.in[0].shape[1]) {}

  void run(const StepContext&) override {
    parallel_for(rows_, [&](Range rows) { loss_loops().log_softmax_backward({classes_, in(0), in(1), out(0)}, rows); });
  }

 private:
  std::int64_t rows_;
  std::int64_t classes_;
};

// What every loss does: its rows among the threads, its report as mean loss and number correct.
class LossKernel : public Kernel {
 public:
  LossKernel(const KernelRequest& request, std::int64_t global_batch)
      : threads_(request.threads), rows_(request.in[0].shape[0]), global_batch_(static_cast<double>(global_batch)) {}

  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(threads_) * sizeof(Slot); }

 protected:
  std::int64_t row_count() const { return rows_; }
  double global_batch() const { return global_batch_; }

  template <class Loop>
  void sum_over_rows(Loop&& loop, double loss_scale) {
    Slot* slots = reinterpret_cast<Slot*>(scratch());
    int threads_used = 1;
    parallel([&](int thread, int threads) {
      slots[thread].report = loop(share(rows_, thread, threads));
      if (thread == 0) threads_used = threads;
    });
    double loss = 0;
    std::int64_t correct = 0;
    for (int thread = 0; thread < threads_used; ++thread) {
      loss += slots[thread].report.loss;
      correct += slots[thread].report.correct;
    }
    out<double>(0)[0] = loss * loss_scale;
    out<double>(0)[1] = static_cast<double>(correct);
  }

 private:
  struct alignas(64) Slot {
    LossReport report;
  };
  int threads_;
  std::int64_t rows_;
  double global_batch_;
};

class CrossEntropyKernel final : public LossKernel {
 public:
  explicit CrossEntropyKernel(const KernelRequest& request)
      : LossKernel(request, op_as<CrossEntropy>(request).global_batch),
        op_(op_as<CrossEntropy>(request)),
        classes_(request.in[0].shape[1]) {}

  void run(const StepContext& context) override {
    const double share = 1.0 / (global_batch() * (op_.class_weights.empty() ? 1.0 : context.mean_class_weight));
    const CrossEntropyArgs args{.classes = classes_,
                                .input = in(0),
                                .labels = in<std::int32_t>(1),
                                .class_weights = op_.class_weights.empty() ? nullptr : op_.class_weights.data(),
                                .smoothing = static_cast<float>(op_.smoothing),
                                .factor = static_cast<float>(share),
                                .gradient = op_.gradient ? out(1) : nullptr};
    const auto loop = op_.log_input ? loss_loops().nll : loss_loops().softmax_cross_entropy;
    sum_over_rows([&](Range rows) { return loop(args, rows); }, share);
  }

 private:
  CrossEntropy op_;
  std::int64_t classes_;
};

class MeanSquaresKernel final : public LossKernel {
 public:
  explicit MeanSquaresKernel(const KernelRequest& request)
      : LossKernel(request, op_as<MeanSquares>(request).global_batch),
        gradient_(op_as<MeanSquares>(request).gradient),
        features_(request.in[0].elements() / request.in[0].shape[0]) {}

  void run(const StepContext&) override {
    const double scale = 1.0 / (global_batch() * static_cast<double>(features_));
    const SquaredErrorArgs args{.features = features_,
                                .y = in(0),
                                .target = in(1),
                                .labels = in<std::int32_t>(2),
                                .factor = static_cast<float>(scale),
                                .gradient = gradient_ ? out(1) : nullptr};
    sum_over_rows([&](Range rows) { return loss_loops().squared_error(args, rows); }, scale);
  }

 private:
  bool gradient_;
  std::int64_t features_;
};

const RegisterKernel register_loss_log_softmax_forward(cpu_backend(), "log_softmax.forward",
                                                       make_kernel<LogSoftmaxForwardKernel>);
const RegisterKernel register_loss_log_softmax_backward(cpu_backend(), "log_softmax.backward",
                                                        make_kernel<LogSoftmaxBackwardKernel>);
const RegisterKernel register_loss_cross_entropy(cpu_backend(), "cross_entropy", make_kernel<CrossEntropyKernel>);
const RegisterKernel register_loss_mean_squares(cpu_backend(), "mse", make_kernel<MeanSquaresKernel>);

}  // namespace
}  // namespace trifold::cpu
