// Batch norm forward: statistics with their running averages in two launches, and the normalisation with all that is
// fused into it. See columns.cuh for how threads are laid over a tensor.
#include "kernels/cuda/batch_norm.cuh"
#include "kernels/cuda/column_reduce.cuh"
#include "kernels/ops/batch_norm.h"

namespace trifold::cuda {
namespace {

// A value of the channel in the group. Moments are those of the distances from it: floats of a mean that is large
// against the deviation would have no digits left for the distances.
template <class T>
__device__ __forceinline__ float center_of(const Columns& c, const T* x, std::int64_t group, int channel) {
  return to_float(x[group * c.rows * c.columns + std::int64_t{channel} * c.columns_per_channel]);
}

// A thread's rows come four at a time: their mean and squares are worked out exactly, then merged into what it has.
template <class T, int kPack>
__global__ void __launch_bounds__(kColumnThreads) moment_parts(Columns c, const T* x, float2* parts) {
  constexpr int kBatch = 4;
  const ColumnPlace place = column_place<kPack>(c);
  const std::int64_t step = std::int64_t{c.threads_down} * c.columns;
  const T* at = x + place.row * c.columns + place.column;
  float center[1][kPack];
  load_coefficients(c, place, center,
                    [&](int channel, float(&value)[1]) { value[0] = center_of(c, x, place.group, channel); });
  float count = 0;
  float mean[kPack] = {};
  float squares[kPack] = {};
  std::int64_t row = place.row;
  for (; row + (kBatch - 1) * c.threads_down < place.end_row; row += kBatch * c.threads_down, at += kBatch * step) {
    RawElements<kPack, T> raw[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) raw[k] = load_raw<kPack>(at + k * step);
    float value[kBatch][kPack];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) unpack<T>(raw[k], value[k]);
    const float share = kBatch / (count + kBatch);
    const float weight = count * share;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
#pragma unroll
      for (int k = 0; k < kBatch; ++k) value[k][i] -= center[0][i];
      const float batch_mean = ((value[0][i] + value[1][i]) + (value[2][i] + value[3][i])) * 0.25f;
      float batch_squares = 0;
#pragma unroll
      for (int k = 0; k < kBatch; ++k) batch_squares += (value[k][i] - batch_mean) * (value[k][i] - batch_mean);
      const float distance = batch_mean - mean[i];
      mean[i] += distance * share;
      squares[i] += batch_squares + distance * distance * weight;
    }
    count += kBatch;
  }
  for (; row < place.end_row; row += c.threads_down, at += step) {
    float value[kPack];
    load_floats(at, value);
    count += 1;
    const float share = 1 / count;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      value[i] -= center[0][i];
      const float distance = value[i] - mean[i];
      mean[i] += distance * share;
      squares[i] += distance * (value[i] - mean[i]);
    }
  }
  reduce_columns<MomentPart, kPack>(c, place, count, mean, squares, PartStore(c, place, parts));
}

template <class T>
struct StatisticsResult {
  Columns columns;
  const T* x;
  double count;  // values a channel and group
  double eps, momentum;
  const float* old_mean;
  const float* old_var;
  float* mean;
  float* istd;
  float* new_mean;
  float* new_var;

  __device__ __forceinline__ void begin(int channel) {
    running_mean = old_mean[channel];
    running_var = old_var[channel];
  }
  __device__ __forceinline__ void add(std::int64_t group, int channel, const MomentPart& part) {
    const double squares = part.second;
    const double exact_mean = static_cast<double>(center_of(columns, x, group, channel)) + part.first;
    const std::int64_t at = group * columns.channels + channel;
    mean[at] = static_cast<float>(exact_mean);
    istd[at] = static_cast<float>(1 / sqrt(squares / count + eps));
    running_mean += momentum * (exact_mean - running_mean);
    // A rank may have one value of a group that lies on several: others then make the running averages (momentum is 0).
    running_var += momentum * (squares / max(count - 1, 1.0) - running_var);
  }
  __device__ __forceinline__ void end(int channel) {
    new_mean[channel] = static_cast<float>(running_mean);
    new_var[channel] = static_cast<float>(running_var);
  }

  double running_mean = 0, running_var = 0;
};

template <class T>
__global__ void __launch_bounds__(kMergeThreads) merge_moments(const float2* parts, StatisticsResult<T> result) {
  merge_parts<MomentPart>(result.columns, parts, result);
}

class StatisticsKernel final : public CudaKernel {
 public:
  explicit StatisticsKernel(const KernelRequest& request)
      : CudaKernel(request),
        op_(op_as<BatchNormStatistics>(request)),
        dtype_(request.in[0].dtype),
        view_(image_view(request.in[0])),
        packed_(packs_fit(view_)),
        columns_(plan_columns({.view = view_,
                               .group = op_.group,
                               .pack = packed_ ? static_cast<int>(16 / size_of(dtype_)) : 1,
                               .least_rows_per_channel = 128},
                              device())) {}

  std::size_t scratch_bytes() const override { return column_parts_bytes(columns_); }

  void run(const StepContext&) override {
    with_element(dtype_, [&](auto element) {
      using T = typename decltype(element)::type;
      packed_ ? take<T, Pack<T>::kCount>() : take<T, 1>();
    });
  }

 private:
  template <class T, int kPack>
  void take() {
    auto* parts = reinterpret_cast<float2*>(scratch());
    const std::size_t shared = std::max(column_reduce_bytes<kPack>(), coefficient_bytes<kPack, 1>(columns_));
    moment_parts<T, kPack><<<columns_.blocks(), kColumnThreads, shared, stream()>>>(columns_, in<T>(0), parts);
    check_launch("moment_parts");
    merge_moments<<<merge_blocks(columns_), kMergeThreads, 0, stream()>>>(
        parts, StatisticsResult<T>{.columns = columns_,
                                   .x = in<T>(0),
                                   .count = static_cast<double>(op_.group * view_.pixels),
                                   .eps = op_.eps,
                                   .momentum = op_.momentum,
                                   .old_mean = in(1),
                                   .old_var = in(2),
                                   .mean = out(0),
                                   .istd = out(1),
                                   .new_mean = out(2),
                                   .new_var = out(3)});
    check_launch("merge_moments");
  }

  BatchNormStatistics op_;
  DType dtype_;
  ImageView view_;
  bool packed_;
  Columns columns_;
};

__global__ void running_statistics(int channels, double eps, const float* running_mean, const float* running_var,
                                   float* mean, float* istd) {
  const int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (channel >= channels) return;
  mean[channel] = running_mean[channel];
  istd[channel] = static_cast<float>(1 / sqrt(running_var[channel] + eps));
}

class RunningKernel final : public CudaKernel {
 public:
  explicit RunningKernel(const KernelRequest& request)
      : CudaKernel(request),
        eps_(op_as<BatchNormRunning>(request).eps),
        channels_(static_cast<int>(request.in[0].elements())) {}

  void run(const StepContext&) override {
    constexpr int kThreads = 128;
    running_statistics<<<static_cast<unsigned>((channels_ + kThreads - 1) / kThreads), kThreads, 0, stream()>>>(
        channels_, eps_, in(0), in(1), out(0), out(1));
    check_launch("running_statistics");
  }

 private:
  double eps_;
  int channels_;
};

template <class T>
struct ApplyArgs {
  NormArgs norm;
  bool relu;
  const T* x;
  const T* residual;  // or null; may be y
  T* y;
  std::uint8_t* mask;  // or null; packs only
};

template <class T, int kPack>
__global__ void __launch_bounds__(kColumnThreads) apply_norm(Columns c, ApplyArgs<T> args) {
  const ColumnPlace place = column_place<kPack>(c);
  float norm[3][kPack];  // mean, scale, beta
  load_coefficients(c, place, norm, [&](int channel, float(&values)[3]) {
    const ChannelNorm of = args.norm.of(place.group, c.channels, channel);
    values[0] = of.mean;
    values[1] = of.scale;
    values[2] = of.beta;
  });
  struct Loaded {
    RawElements<kPack, T> x, residual;
  };
  const auto load = [&](std::int64_t at) {
    return Loaded{load_raw<kPack>(args.x + at),
                  args.residual == nullptr ? RawElements<kPack, T>{} : load_raw<kPack>(args.residual + at)};
  };
  for_each_row(c, place, load, [&](std::int64_t at, const Loaded& loaded) {
    float x[kPack];
    float residual[kPack] = {};
    unpack<T>(loaded.x, x);
    if (args.residual != nullptr) unpack<T>(loaded.residual, residual);
    float y[kPack];
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      y[i] = normalised(x[i], norm[0][i], norm[1][i], norm[2][i]) + residual[i];
      const bool on = y[i] > 0;
      bits |= (on ? 1u : 0u) << i;
      if (args.relu && !on) y[i] = 0;
    }
    store_floats(args.y + at, y);
    if (kPack > 1 && args.mask != nullptr) {
      // Two threads of an f32 tensor, always neighbours in one row, have a byte between them.
      if constexpr (kPack == 4) bits |= __shfl_down_sync(3u << (threadIdx.x % 32 & ~1u), bits, 1) << 4;
      if (kPack == 8 || place.across % 2 == 0) args.mask[at / 8] = static_cast<std::uint8_t>(bits);
    }
  });
}

// The mask of rows that are no whole bytes, from y. A warp has 32 elements, a byte for each of its first four lanes.
template <class T>
__global__ void __launch_bounds__(kColumnThreads) positive_mask(std::int64_t elements, const T* y, std::uint8_t* mask) {
  const std::int64_t warps = std::int64_t{gridDim.x} * (kColumnThreads / 32);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t bytes = (elements + 7) / 8;
  for (std::int64_t warp = (std::int64_t{blockIdx.x} * kColumnThreads + threadIdx.x) / 32; warp * 32 < elements;
       warp += warps) {
    const std::int64_t element = warp * 32 + lane;
    const unsigned bits = __ballot_sync(0xffffffffu, element < elements && to_float(y[element]) > 0);
    if (lane < 4 && warp * 4 + lane < bytes) mask[warp * 4 + lane] = static_cast<std::uint8_t>(bits >> (8 * lane));
  }
}

class ApplyKernel final : public CudaKernel {
 public:
  explicit ApplyKernel(const KernelRequest& request)
      : CudaKernel(request),
        op_(op_as<BatchNormApply>(request)),
        writes_mask_(request.out.size() > 1),
        dtype_(request.in[0].dtype),
        view_(image_view(request.in[0])),
        packed_(packs_fit(view_)),
        columns_(plan_columns({.view = view_,
                               .group = op_.group,
                               .pack = packed_ ? static_cast<int>(16 / size_of(dtype_)) : 1,
                               .least_rows_per_channel = 64},
                              device())) {}

  void run(const StepContext&) override {
    with_element(dtype_, [&](auto element) {
      using T = typename decltype(element)::type;
      packed_ ? apply<T, Pack<T>::kCount>() : apply<T, 1>();
      if (!writes_mask_ || packed_) return;
      const std::int64_t elements = view_.elements();
      positive_mask<T><<<blocks_for(elements, kColumnThreads, device()), kColumnThreads, 0, stream()>>>(
          elements, out<T>(0), out<std::uint8_t>(1));
      check_launch("positive_mask");
    });
  }

 private:
  template <class T, int kPack>
  void apply() {
    const ApplyArgs<T> args{.norm = {in(1), in(2), in(3), in(4)},
                            .relu = op_.relu,
                            .x = in<T>(0),
                            .residual = op_.residual ? in<T>(5) : nullptr,
                            .y = out<T>(0),
                            .mask = writes_mask_ ? out<std::uint8_t>(1) : nullptr};
    apply_norm<T, kPack>
        <<<columns_.blocks(), kColumnThreads, coefficient_bytes<kPack, 3>(columns_), stream()>>>(columns_, args);
    check_launch("apply_norm");
  }

  BatchNormApply op_;
  bool writes_mask_;
  DType dtype_;
  ImageView view_;
  bool packed_;
  Columns columns_;
};

const RegisterKernel register_batch_norm_statistics(cuda_backend(), "batch_norm.statistics",
                                                    make_kernel<StatisticsKernel>);
const RegisterKernel register_batch_norm_running(cuda_backend(), "batch_norm.running", make_kernel<RunningKernel>);
const RegisterKernel register_batch_norm_apply(cuda_backend(), "batch_norm.apply", make_kernel<ApplyKernel>);

}  // namespace
}  // namespace trifold::cuda
