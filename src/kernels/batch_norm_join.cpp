// batch_norm.join on the host: a few numbers a channel, so every host backend runs this one loop.
#include <algorithm>
#include <cmath>

#include "kernels/backend.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/reference/element_type.h"

namespace trifold {
namespace {

template <class T>
class JoinKernel final : public Kernel {
 public:
  explicit JoinKernel(const KernelRequest& request)
      : op_(op_as<BatchNormJoin>(request)), rows_(request.in[0].shape[0]), channels_(request.in[0].shape[1]) {}

  void run(const StepContext&) override {
    for (std::int64_t c = 0; c < channels_; ++c) {
      double running_mean = in<T>(2)[c];
      double running_var = in<T>(3)[c];
      const double count = static_cast<double>(op_.group * op_.pixels * op_.span);
      for (std::int64_t row = 0; row < rows_; row += op_.span) {
        const Moments group = join(row, c);
        running_mean += op_.momentum * (group.mean - running_mean);
        const double unbiased = count > 1 ? group.variance * count / (count - 1) : group.variance;
        running_var += op_.momentum * (unbiased - running_var);
        if (op_.span > 1 && row == op_.replica / op_.span * op_.span) {
          out<T>(2)[c] = static_cast<T>(group.mean);
          out<T>(3)[c] = static_cast<T>(1 / std::sqrt(group.variance + op_.eps));
        }
      }
      out<T>(0)[c] = static_cast<T>(running_mean);
      out<T>(1)[c] = static_cast<T>(running_var);
    }
  }

 private:
  struct Moments {
    double mean, variance;
  };

  Moments at(std::int64_t row, std::int64_t channel) const {
    const auto i = static_cast<std::size_t>(row * channels_ + channel);
    const double istd = in<T>(1)[i];
    return {in<T>(0)[i], std::max(0.0, 1 / (istd * istd) - op_.eps)};
  }

  // The moments of `span` parts of the same size: the mean of their variances and the variance of their means.
  Moments join(std::int64_t first, std::int64_t channel) const {
    if (op_.span == 1) return at(first, channel);
    Moments joined{0, 0};
    for (int part = 0; part < op_.span; ++part) joined.mean += at(first + part, channel).mean / op_.span;
    for (int part = 0; part < op_.span; ++part) {
      const Moments one = at(first + part, channel);
      const double apart = one.mean - joined.mean;
      joined.variance += (one.variance + apart * apart) / op_.span;
    }
    return joined;
  }

  BatchNormJoin op_;
  std::int64_t rows_, channels_;
};

const RegisterKernel register_batch_norm_join_cpu_join(cpu_backend(), "batch_norm.join",
                                                       make_kernel<JoinKernel<float>>);
const RegisterKernel reference_join(reference_backend(), "batch_norm.join",
                                    reference::make_for_type<JoinKernel<float>, JoinKernel<double>>);

}  // namespace
}  // namespace trifold
