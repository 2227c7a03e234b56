// batch_norm.join_rows on the host: a few numbers a channel, so every host backend runs this one loop.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/backend.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/reference/element_type.h"

namespace trifold {
namespace {

template <class T>
class JoinRowsKernel final : public Kernel {
 public:
  explicit JoinRowsKernel(const KernelRequest& request)
      : op_(op_as<BatchNormJoinRows>(request)),
        groups_(request.out[0].shape[0]),
        channels_(request.out[0].shape[1]),
        pixels_(std::accumulate(op_.pixels.begin(), op_.pixels.end(), 0.0)) {}

  void run(const StepContext&) override {
    const double count = static_cast<double>(op_.group) * pixels_;
    for (std::int64_t c = 0; c < channels_; ++c) {
      double running_mean = op_.running ? in<T>(2)[c] : 0;
      double running_var = op_.running ? in<T>(3)[c] : 0;
      for (std::int64_t group = 0; group < groups_; ++group) {
        const std::int64_t at = group * channels_ + c;
        double mean = 0;
        for (std::size_t part = 0; part < op_.pixels.size(); ++part) mean += share(part) * in<T>(0)[index(part, at)];
        // The mean of the parts' variances and the variance of their means.
        double variance = 0;
        for (std::size_t part = 0; part < op_.pixels.size(); ++part) {
          const double apart = in<T>(0)[index(part, at)] - mean;
          const double istd = in<T>(1)[index(part, at)];
          variance += share(part) * (std::max(0.0, 1 / (istd * istd) - op_.eps) + apart * apart);
        }
        out<T>(0)[at] = static_cast<T>(mean);
        out<T>(1)[at] = static_cast<T>(1 / std::sqrt(variance + op_.eps));
        running_mean += op_.momentum * (mean - running_mean);
        running_var += op_.momentum * (variance * count / (count - 1) - running_var);
      }
      if (!op_.running) continue;
      out<T>(2)[c] = static_cast<T>(running_mean);
      out<T>(3)[c] = static_cast<T>(running_var);
    }
  }

 private:
  double share(std::size_t part) const { return static_cast<double>(op_.pixels[part]) / pixels_; }
  std::size_t index(std::size_t part, std::int64_t at) const {
    return part * static_cast<std::size_t>(groups_ * channels_) + static_cast<std::size_t>(at);
  }

  BatchNormJoinRows op_;
  std::int64_t groups_, channels_;
  double pixels_;  // of a whole image
};

const RegisterKernel register_batch_norm_join_rows_cpu_join_rows(cpu_backend(), "batch_norm.join_rows",
                                                                 make_kernel<JoinRowsKernel<float>>);
const RegisterKernel reference_join_rows(reference_backend(), "batch_norm.join_rows",
                                         reference::make_for_type<JoinRowsKernel<float>, JoinRowsKernel<double>>);

}  // namespace
}  // namespace trifold
