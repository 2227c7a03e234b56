// Batch norm backward: the sums that the gradient needs in two launches, which also undo a fused relu and add a second
// gradient, then the gradient itself. See columns.cuh for how threads are laid over a tensor.
#include "kernels/cuda/batch_norm.cuh"
#include "kernels/cuda/column_reduce.cuh"
#include "kernels/ops/batch_norm.h"

namespace trifold::cuda {
namespace {

template <class T>
struct ReduceArgs {
  NormArgs norm;
  const T* dy;
  const T* x;
  const T* dy2;              // or null
  const std::uint8_t* mask;  // or null
  T* d;                      // or null; may be dy or dy2
};

// first: sum of d, second: sum of d * (x - mean).
template <class T, int kPack, bool kGated>
__global__ void __launch_bounds__(kColumnThreads, 2) gradient_parts(Columns c, ReduceArgs<T> args, float2* parts) {
  constexpr int kValues = kGated ? 3 : 1;  // mean, and scale and beta where the relu is undone from x
  const ColumnPlace place = column_place<kPack>(c);
  float norm[kValues][kPack];
  load_coefficients(c, place, norm, [&](int channel, float(&values)[kValues]) {
    values[0] = args.norm.mean[place.group * c.channels + channel];
    if constexpr (kGated) {
      const ChannelNorm of = args.norm.of(place.group, c.channels, channel);
      values[1] = of.scale;
      values[2] = of.beta;
    }
  });
  float count = 0;
  float sum_d[kPack] = {};
  float sum_dx[kPack] = {};
  struct Loaded {
    RawElements<kPack, T> x, dy, dy2;
    unsigned bits;
  };
  const auto load = [&](std::int64_t at) {
    return Loaded{load_raw<kPack>(args.x + at), load_raw<kPack>(args.dy + at),
                  args.dy2 == nullptr ? RawElements<kPack, T>{} : load_raw<kPack>(args.dy2 + at),
                  args.mask == nullptr ? ~0u : mask_bits(args.mask, at)};
  };
  for_each_row(c, place, load, [&](std::int64_t at, const Loaded& loaded) {
    float x[kPack];
    float d[kPack];
    unpack<T>(loaded.x, x);
    unpack<T>(loaded.dy, d);
    if (args.dy2 != nullptr) {
      float more[kPack];
      unpack<T>(loaded.dy2, more);
#pragma unroll
      for (int i = 0; i < kPack; ++i) d[i] += more[i];
    }
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      bool on = (loaded.bits >> i & 1) != 0;
      if constexpr (kGated) on = normalised(x[i], norm[0][i], norm[1][i], norm[2][i]) > 0;
      if (!on) d[i] = 0;
      sum_d[i] += d[i];
      sum_dx[i] += d[i] * (x[i] - norm[0][i]);
    }
    if (args.d != nullptr) store_floats(args.d + at, d);
    count += 1;
  });
  reduce_columns<SumPart, kPack>(c, place, count, sum_d, sum_dx, PartStore(c, place, parts));
}

struct ReduceResult {
  int channels;
  const float* istd;
  float* sum_d;
  float* sum_dx;
  float* dgamma;
  float* dbeta;

  __device__ __forceinline__ void begin(int) {}
  __device__ __forceinline__ void add(std::int64_t group, int channel, const SumPart& part) {
    const std::int64_t at = group * channels + channel;
    sum_d[at] = part.first;
    sum_dx[at] = part.second;
    total_dgamma += static_cast<double>(part.second) * istd[at];
    total_dbeta += part.first;
  }
  __device__ __forceinline__ void end(int channel) {
    dgamma[channel] = static_cast<float>(total_dgamma);
    dbeta[channel] = static_cast<float>(total_dbeta);
  }

  double total_dgamma = 0, total_dbeta = 0;
};

__global__ void __launch_bounds__(kMergeThreads) merge_gradients(Columns c, const float2* parts, ReduceResult result) {
  merge_parts<SumPart>(c, parts, result);
}

class BackwardReduceKernel final : public CudaKernel {
 public:
  explicit BackwardReduceKernel(const KernelRequest& request)
      : CudaKernel(request),
        op_(op_as<BatchNormBackwardReduce>(request)),
        dtype_(request.in[1].dtype),
        view_(image_view(request.in[1])),
        packed_(packs_fit(view_)),
        columns_(plan_columns({.view = view_,
                               .group = op_.group,
                               .pack = packed_ ? static_cast<int>(16 / size_of(dtype_)) : 1,
                               .least_rows_per_channel = 128},
                              device())) {}

  std::size_t scratch_bytes() const override { return column_parts_bytes(columns_); }

  void run(const StepContext&) override {
    auto* parts = reinterpret_cast<float2*>(scratch());
    with_element(dtype_, [&](auto element) {
      using T = typename decltype(element)::type;
      packed_ ? reduce<T, Pack<T>::kCount>(parts) : reduce<T, 1>(parts);
    });
    merge_gradients<<<merge_blocks(columns_), kMergeThreads, 0, stream()>>>(columns_, parts,
                                                                            {.channels = columns_.channels,
                                                                             .istd = in(3),
                                                                             .sum_d = out(0),
                                                                             .sum_dx = out(1),
                                                                             .dgamma = out(2),
                                                                             .dbeta = out(3)});
    check_launch("merge_gradients");
  }

 private:
  template <class T, int kPack>
  void reduce(float2* parts) {
    ReduceArgs<T> args{.norm = {in(2), in(3), in(4), in(5)},
                       .dy = in<T>(0),
                       .x = in<T>(1),
                       .dy2 = nullptr,
                       .mask = nullptr,
                       .d = nullptr};
    std::size_t next = 6;
    if (op_.second_gradient) args.dy2 = in<T>(next++);
    if (op_.mask == ReluMask::bits) args.mask = in<std::uint8_t>(next);
    if (op_.write_d) args.d = out<T>(4);
    const auto launch = [&](auto kernel, std::size_t table_bytes) {
      const std::size_t bytes = std::max(column_reduce_bytes<kPack>(), table_bytes);
      kernel<<<columns_.blocks(), kColumnThreads, bytes, stream()>>>(columns_, args, parts);
      check_launch("gradient_parts");
    };
    if (op_.mask == ReluMask::from_x)
      launch(gradient_parts<T, kPack, true>, coefficient_bytes<kPack, 3>(columns_));
    else
      launch(gradient_parts<T, kPack, false>, coefficient_bytes<kPack, 1>(columns_));
  }

  BatchNormBackwardReduce op_;
  DType dtype_;
  ImageView view_;
  bool packed_;
  Columns columns_;
};

template <class T>
struct InputArgs {
  NormArgs norm;
  const float* sum_d;
  const float* sum_dx;
  float count;  // values a channel and group, on all replicas
  const T* d;
  const T* x;
  T* dx;  // may be d or x
};

// dx = scale * (d - sum_d / count - (x - mean) * istd^2 * sum_dx / count)
template <class T, int kPack, bool kGated>
__global__ void __launch_bounds__(kColumnThreads) input_gradient(Columns c, InputArgs<T> args) {
  constexpr int kValues = kGated ? 5 : 4;  // mean, scale, slope of x, constant, and beta
  const ColumnPlace place = column_place<kPack>(c);
  float norm[kValues][kPack];
  load_coefficients(c, place, norm, [&](int channel, float(&values)[kValues]) {
    const std::int64_t at = place.group * c.channels + channel;
    const ChannelNorm of = args.norm.of(place.group, c.channels, channel);
    const float istd = args.norm.istd[at];
    values[0] = of.mean;
    values[1] = of.scale;
    values[2] = -of.scale * (args.sum_dx[at] / args.count) * istd * istd;
    values[3] = -of.scale * (args.sum_d[at] / args.count);
    if constexpr (kGated) values[4] = of.beta;
  });
  struct Loaded {
    RawElements<kPack, T> d, x;
  };
  const auto load = [&](std::int64_t at) { return Loaded{load_raw<kPack>(args.d + at), load_raw<kPack>(args.x + at)}; };
  for_each_row(c, place, load, [&](std::int64_t at, const Loaded& loaded) {
    float x[kPack];
    float dx[kPack];
    unpack<T>(loaded.x, x);
    unpack<T>(loaded.d, dx);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if constexpr (kGated) {
        if (!(normalised(x[i], norm[0][i], norm[1][i], norm[4][i]) > 0)) dx[i] = 0;
      }
      dx[i] = norm[1][i] * dx[i] + (norm[2][i] * (x[i] - norm[0][i]) + norm[3][i]);
    }
    store_floats(args.dx + at, dx);
  });
}

class BackwardInputKernel final : public CudaKernel {
 public:
  explicit BackwardInputKernel(const KernelRequest& request)
      : CudaKernel(request),
        op_(op_as<BatchNormBackwardInput>(request)),
        dtype_(request.in[1].dtype),
        view_(image_view(request.in[1])),
        packed_(packs_fit(view_)),
        columns_(plan_columns({.view = view_,
                               .group = op_.group,
                               .pack = packed_ ? static_cast<int>(16 / size_of(dtype_)) : 1,
                               .least_rows_per_channel = 64},
                              device())) {
    TRIFOLD_CHECK(op_.mask != ReluMask::bits, "a mask of bits is undone in batch_norm.backward_reduce");
  }

  void run(const StepContext&) override {
    with_element(dtype_, [&](auto element) {
      using T = typename decltype(element)::type;
      packed_ ? input<T, Pack<T>::kCount>() : input<T, 1>();
    });
  }

 private:
  template <class T, int kPack>
  void input() {
    const InputArgs<T> args{.norm = {in(2), in(3), in(4), in(5)},
                            .sum_d = in(6),
                            .sum_dx = in(7),
                            .count = static_cast<float>(op_.values(view_.pixels)),
                            .d = in<T>(0),
                            .x = in<T>(1),
                            .dx = out<T>(0)};
    const auto launch = [&](auto kernel, std::size_t table_bytes) {
      kernel<<<columns_.blocks(), kColumnThreads, table_bytes, stream()>>>(columns_, args);
      check_launch("input_gradient");
    };
    if (op_.mask == ReluMask::from_x)
      launch(input_gradient<T, kPack, true>, coefficient_bytes<kPack, 5>(columns_));
    else
      launch(input_gradient<T, kPack, false>, coefficient_bytes<kPack, 4>(columns_));
  }

  BatchNormBackwardInput op_;
  DType dtype_;
  ImageView view_;
  bool packed_;
  Columns columns_;
};

const RegisterKernel register_batch_norm_backward_backward_reduce(cuda_backend(), "batch_norm.backward_reduce",
                                                                  make_kernel<BackwardReduceKernel>);
const RegisterKernel register_batch_norm_backward_backward_input(cuda_backend(), "batch_norm.backward_input",
                                                                 make_kernel<BackwardInputKernel>);

}  // namespace
}  // namespace trifold::cuda
