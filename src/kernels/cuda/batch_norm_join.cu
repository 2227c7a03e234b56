// batch_norm.join: a few numbers a channel, one thread each, in double as on the host.
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/ops/batch_norm.h"

namespace trifold::cuda {
namespace {

constexpr int kJoinThreads = 128;

struct JoinArgs {
  int rows;
  int channels;
  int span;
  int replica;
  double share;   // 1 / span
  double unbias;  // from the variance of a joined row's values to the estimate of their distribution's
  double eps;
  double momentum;
  const float* mean;  // [rows, channels]
  const float* istd;
  const float* old_running_mean;  // [channels]
  const float* old_running_var;
  float* running_mean;
  float* running_var;
  float* group_mean;  // [channels], where span > 1
  float* group_istd;
};

struct Moments {
  double mean, variance;
};

__device__ Moments moments_at(const JoinArgs& args, int row, int channel) {
  const std::int64_t at = std::int64_t{row} * args.channels + channel;
  const double istd = args.istd[at];
  return {args.mean[at], fmax(0.0, 1 / (istd * istd) - args.eps)};
}

// The moments of `span` parts of the same size: the mean of their variances and the variance of their means.
__device__ Moments join_rows(const JoinArgs& args, int first, int channel) {
  if (args.span == 1) return moments_at(args, first, channel);
  Moments joined{0, 0};
  for (int part = 0; part < args.span; ++part)
    joined.mean += args.share * args.mean[std::int64_t{first + part} * args.channels + channel];
#pragma unroll 1  // divisions of doubles take many registers
  for (int part = 0; part < args.span; ++part) {
    const Moments one = moments_at(args, first + part, channel);
    const double apart = one.mean - joined.mean;
    joined.variance += args.share * (one.variance + apart * apart);
  }
  return joined;
}

__global__ void __launch_bounds__(kJoinThreads) join_statistics(JoinArgs args) {
  const int step = static_cast<int>(gridDim.x) * kJoinThreads;
  for (int c = static_cast<int>(blockIdx.x) * kJoinThreads + static_cast<int>(threadIdx.x); c < args.channels;
       c += step) {
    double running_mean = args.old_running_mean[c];
    double running_var = args.old_running_var[c];
#pragma unroll 1
    for (int row = 0; row < args.rows; row += args.span) {
      const Moments group = join_rows(args, row, c);
      running_mean += args.momentum * (group.mean - running_mean);
      running_var += args.momentum * (args.unbias * group.variance - running_var);
      if (args.span > 1 && row == args.replica / args.span * args.span) {
        args.group_mean[c] = static_cast<float>(group.mean);
        args.group_istd[c] = static_cast<float>(1 / sqrt(group.variance + args.eps));
      }
    }
    args.running_mean[c] = static_cast<float>(running_mean);
    args.running_var[c] = static_cast<float>(running_var);
  }
}

class JoinKernel final : public CudaKernel {
 public:
  explicit JoinKernel(const KernelRequest& request)
      : CudaKernel(request),
        op_(op_as<BatchNormJoin>(request)),
        rows_(static_cast<int>(request.in[0].shape[0])),
        channels_(static_cast<int>(request.in[0].shape[1])) {}

  void run(const StepContext&) override {
    const bool joins = op_.span > 1;
    const auto count = static_cast<double>(op_.group * op_.pixels * op_.span);
    const JoinArgs args{.rows = rows_,
                        .channels = channels_,
                        .span = op_.span,
                        .replica = op_.replica,
                        .share = 1.0 / op_.span,
                        .unbias = count > 1 ? count / (count - 1) : 1.0,
                        .eps = op_.eps,
                        .momentum = op_.momentum,
                        .mean = in(0),
                        .istd = in(1),
                        .old_running_mean = in(2),
                        .old_running_var = in(3),
                        .running_mean = out(0),
                        .running_var = out(1),
                        .group_mean = joins ? out(2) : nullptr,
                        .group_istd = joins ? out(3) : nullptr};
    join_statistics<<<blocks_for(channels_, kJoinThreads, device()), kJoinThreads, 0, stream()>>>(args);
    check_launch("join_statistics");
  }

 private:
  BatchNormJoin op_;
  int rows_, channels_;
};

const RegisterKernel register_batch_norm_join_join(cuda_backend(), "batch_norm.join", make_kernel<JoinKernel>);

}  // namespace
}  // namespace trifold::cuda
