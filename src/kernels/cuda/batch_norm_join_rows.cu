// batch_norm.join_rows: a few numbers a channel, one thread each, in double as on the host.
#include <numeric>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/ops/batch_norm.h"

namespace trifold::cuda {
namespace {

constexpr int kJoinThreads = 128;
constexpr std::size_t kMostRanks = 64;

struct JoinRowsArgs {
  double shares[kMostRanks];  // of an image's pixels, by rank
  int ranks;
  int groups;
  int channels;
  double unbias;  // from the variance of a group's values to the estimate of their distribution's
  double eps;
  double momentum;
  const float* mean;  // [ranks, groups, channels]
  const float* istd;
  float* group_mean;  // [groups, channels]
  float* group_istd;
  const float* old_running_mean;  // [channels], or null: there are none here
  const float* old_running_var;
  float* running_mean;
  float* running_var;
};

__global__ void __launch_bounds__(kJoinThreads) join_rows(JoinRowsArgs args) {
  const int step = static_cast<int>(gridDim.x) * kJoinThreads;
  const std::int64_t part = std::int64_t{args.groups} * args.channels;
  for (int c = static_cast<int>(blockIdx.x) * kJoinThreads + static_cast<int>(threadIdx.x); c < args.channels;
       c += step) {
    double running_mean = args.old_running_mean != nullptr ? args.old_running_mean[c] : 0;
    double running_var = args.old_running_mean != nullptr ? args.old_running_var[c] : 0;
#pragma unroll 1
    for (int group = 0; group < args.groups; ++group) {
      const std::int64_t at = std::int64_t{group} * args.channels + c;
      double mean = 0;
      for (int rank = 0; rank < args.ranks; ++rank) mean += args.shares[rank] * args.mean[rank * part + at];
      // The mean of the parts' variances and the variance of their means.
      double variance = 0;
#pragma unroll 1  // divisions of doubles take many registers
      for (int rank = 0; rank < args.ranks; ++rank) {
        const double apart = args.mean[rank * part + at] - mean;
        const double istd = args.istd[rank * part + at];
        variance += args.shares[rank] * (fmax(0.0, 1 / (istd * istd) - args.eps) + apart * apart);
      }
      args.group_mean[at] = static_cast<float>(mean);
      args.group_istd[at] = static_cast<float>(1 / sqrt(variance + args.eps));
      running_mean += args.momentum * (mean - running_mean);
      running_var += args.momentum * (args.unbias * variance - running_var);
    }
    if (args.old_running_mean == nullptr) continue;
    args.running_mean[c] = static_cast<float>(running_mean);
    args.running_var[c] = static_cast<float>(running_var);
  }
}

class JoinRowsKernel final : public CudaKernel {
 public:
  explicit JoinRowsKernel(const KernelRequest& request)
      : CudaKernel(request), running_(op_as<BatchNormJoinRows>(request).running) {
    const auto& op = op_as<BatchNormJoinRows>(request);
    TRIFOLD_CHECK(op.pixels.size() <= kMostRanks, "statistics of {} ranks; {} is the most", op.pixels.size(),
                  kMostRanks);
    const double pixels = std::accumulate(op.pixels.begin(), op.pixels.end(), 0.0);
    const double count = static_cast<double>(op.group) * pixels;
    for (std::size_t rank = 0; rank < op.pixels.size(); ++rank)
      args_.shares[rank] = static_cast<double>(op.pixels[rank]) / pixels;
    args_.ranks = static_cast<int>(op.pixels.size());
    args_.groups = static_cast<int>(request.out[0].shape[0]);
    args_.channels = static_cast<int>(request.out[0].shape[1]);
    args_.unbias = count / (count - 1);
    args_.eps = op.eps;
    args_.momentum = op.momentum;
  }

  void run(const StepContext&) override {
    args_.mean = in(0);
    args_.istd = in(1);
    args_.group_mean = out(0);
    args_.group_istd = out(1);
    if (running_) {
      args_.old_running_mean = in(2);
      args_.old_running_var = in(3);
      args_.running_mean = out(2);
      args_.running_var = out(3);
    }
    join_rows<<<blocks_for(args_.channels, kJoinThreads, device()), kJoinThreads, 0, stream()>>>(args_);
    check_launch("join_rows");
  }

 private:
  bool running_;
  JoinRowsArgs args_{};
};

const RegisterKernel register_batch_norm_join_rows_join_rows_of_images(cuda_backend(), "batch_norm.join_rows",
                                                                       make_kernel<JoinRowsKernel>);

}  // namespace
}  // namespace trifold::cuda
