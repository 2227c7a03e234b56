// The pooling ops: windows by the kernels of pooling_kernels.h, and whole images, whose mean is a reduction of columns
// (columns.cuh) in NHWC and of staged pieces of memory in NCHW.
#include <utility>

#include "kernels/cuda/column_reduce.cuh"
#include "kernels/cuda/pooling_kernels.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/ops/pooling.h"

namespace trifold::cuda {
namespace {

// The windows of a pooling or of its gradient. Only averages have a divisor.
template <class Op>
Windows windows_of(const Op& op, const Shape& x, const Shape& y) {
  if constexpr (requires { op.divisor; })
    return make_windows(op.args, x, y, op.divisor);
  else
    return make_windows(op.args, x, y);
}

// Forward of both kinds.
template <class Op, PoolKind kKind>
class PoolForwardKernel final : public CudaKernel {
 public:
  explicit PoolForwardKernel(const KernelRequest& request)
      : CudaKernel(request),
        writes_argmax_(request.out.size() > 1),
        dtype_(request.in[0].dtype),
        view_(image_view(request.in[0])),
        windows_(windows_of(op_as<Op>(request), request.in[0].shape, request.out[0].shape)) {}

  void run(const StepContext&) override {
    PoolForwardArgs args{.kind = kKind,
                         .dtype = dtype_,
                         .windows = windows_,
                         .samples = view_.samples,
                         .channels = view_.channels,
                         .x = in(0),
                         .y = out(0),
                         .argmax = writes_argmax_ ? out<std::uint8_t>(1) : nullptr};
    if (view_.block == 1) {
      if (pool_planar(args, device(), stream())) return;
      args.samples *= std::exchange(args.channels, 1);
    }
    pool_channels_last(args, device(), stream());
  }

 private:
  bool writes_argmax_;
  DType dtype_;
  ImageView view_;
  Windows windows_;
};

template <class Op, PoolKind kKind>
class PoolBackwardKernel final : public CudaKernel {
 public:
  explicit PoolBackwardKernel(const KernelRequest& request)
      : CudaKernel(request),
        gated_(request.in.size() > 2),
        dtype_(request.out[0].dtype),
        view_(image_view(request.out[0])),
        windows_(windows_of(op_as<Op>(request), request.out[0].shape, request.in[0].shape)) {}

  void run(const StepContext&) override {
    PoolBackwardArgs args{.kind = kKind,
                          .dtype = dtype_,
                          .windows = windows_,
                          .samples = view_.samples,
                          .channels = view_.channels,
                          .dy = in(0),
                          .argmax = kKind == PoolKind::max ? in<std::uint8_t>(1) : nullptr,
                          .y = gated_ ? in(2) : nullptr,
                          .dx = out(0)};
    if (view_.block == 1) {
      if (unpool_planar(args, device(), stream())) return;
      args.samples *= std::exchange(args.channels, 1);
    }
    unpool_channels_last(args, device(), stream());
  }

 private:
  bool gated_;
  DType dtype_;
  ImageView view_;
  Windows windows_;
};

template <class T, int kPack>
__global__ void __launch_bounds__(kColumnThreads) mean_of_columns(Columns c, float share, const T* x, T* y) {
  const ColumnPlace place = column_place<kPack>(c);
  float count = 0;
  float sum[kPack] = {};
  float unused[kPack] = {};
  for (std::int64_t row = place.row; row < place.end_row; row += c.threads_down) {
    float value[kPack];
    load_floats(x + row * c.columns + place.column, value);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum[i] += value[i];
    count += 1;
  }
  T* to = y + place.group * c.channels + c.first_channel(place.tile);
  reduce_columns<SumPart, kPack>(c, place, count, sum, unused,
                                 [&](int slot, float total, float) { to[slot] = from_float<T>(total * share); });
}

// A piece of memory at a time: as many whole images as a warp each can sum, from shared memory; or a large image by
// all.
constexpr int kMeanThreads = 256;
constexpr int kMeanFloats = 2048;
template <class T>
__global__ void __launch_bounds__(kMeanThreads)
    mean_of_planes(std::int64_t planes, int pixels, float share, int planes_per_block, const T* x, T* y) {
  __shared__ float values[kMeanFloats];
  __shared__ float sums[kMeanFloats / 2];  // an image has two pixels or more
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first = std::int64_t{blockIdx.x} * planes_per_block;
  if (planes_per_block == 1) {
    float sum = 0;
    for (int i = thread; i < pixels; i += kMeanThreads) sum += to_float(x[first * pixels + i]);
    sum = block_sum<kMeanThreads>(sum);
    if (thread == 0) y[first] = from_float<T>(sum * share);
    return;
  }
  const int count = static_cast<int>(min(static_cast<std::int64_t>(planes_per_block), planes - first));
  for (int i = thread; i < count * pixels; i += kMeanThreads) values[i] = to_float(x[first * pixels + i]);
  __syncthreads();
  for (int plane = thread / 32; plane < count; plane += kMeanThreads / 32) {
    float sum = 0;
    for (int i = thread % 32; i < pixels; i += 32) sum += values[plane * pixels + i];
    sum = warp_sum(sum);
    if (thread % 32 == 0) sums[plane] = sum;
  }
  __syncthreads();
  for (int plane = thread; plane < count; plane += kMeanThreads) y[first + plane] = from_float<T>(sums[plane] * share);
}

// Of one pixel in the mean; `whole` pixels are an image's where the tensor has some rows of it.
float share_of_pixel(std::int64_t whole, const ImageView& view) {
  return 1 / static_cast<float>(whole > 0 ? whole : view.pixels);
}

class GlobalAvgPoolForwardKernel final : public CudaKernel {
 public:
  explicit GlobalAvgPoolForwardKernel(const KernelRequest& request)
      : CudaKernel(request),
        dtype_(request.in[0].dtype),
        view_(image_view(request.in[0])),
        share_(share_of_pixel(op_as<GlobalAvgPoolForward>(request).pixels, view_)),
        packed_(packs_fit(view_)),
        columns_(plan_columns({.view = view_,
                               .group = 1,
                               .pack = packed_ ? static_cast<int>(16 / size_of(dtype_)) : 1,
                               .least_rows_per_channel = view_.pixels + 1},  // one chunk
                              device())) {}

  void run(const StepContext&) override {
    with_element(dtype_, [&](auto element) {
      using T = typename decltype(element)::type;
      if (view_.block == 1 && view_.pixels > 1)
        mean_planes<T>();
      else
        packed_ ? mean_columns<T, Pack<T>::kCount>() : mean_columns<T, 1>();
    });
  }

 private:
  template <class T, int kPack>
  void mean_columns() {
    mean_of_columns<T, kPack><<<columns_.blocks(), kColumnThreads, column_reduce_bytes<kPack>(), stream()>>>(
        columns_, share_, in<T>(0), out<T>(0));
    check_launch("mean_of_columns");
  }
  template <class T>
  void mean_planes() {
    // A multiple of the planes that make whole sectors, so that blocks do not share one.
    constexpr std::int64_t kSectorElements = 32 / sizeof(T);
    std::int64_t planes_per_block = std::max<std::int64_t>(1, kMeanFloats / view_.pixels);
    if (planes_per_block > kSectorElements) planes_per_block -= planes_per_block % kSectorElements;
    const std::int64_t planes = view_.samples * view_.channels;
    const auto blocks = static_cast<unsigned>((planes + planes_per_block - 1) / planes_per_block);
    mean_of_planes<T><<<blocks, kMeanThreads, 0, stream()>>>(planes, static_cast<int>(view_.pixels), share_,
                                                             static_cast<int>(planes_per_block), in<T>(0), out<T>(0));
    check_launch("mean_of_planes");
  }

  DType dtype_;
  ImageView view_;
  float share_;
  bool packed_;
  Columns columns_;
};

template <class T, int kPack>
__global__ void __launch_bounds__(kColumnThreads) spread_mean(Columns c, float share, const T* dy, T* dx) {
  const ColumnPlace place = column_place<kPack>(c);
  float value[1][kPack];
  load_coefficients(c, place, value, [&](int channel, float(&values)[1]) {
    values[0] = to_float(dy[place.group * c.channels + channel]) * share;
  });
  for (std::int64_t row = place.row; row < place.end_row; row += c.threads_down)
    store_floats(dx + row * c.columns + place.column, value[0]);
}

class GlobalAvgPoolBackwardKernel final : public CudaKernel {
 public:
  explicit GlobalAvgPoolBackwardKernel(const KernelRequest& request)
      : CudaKernel(request),
        dtype_(request.out[0].dtype),
        view_(image_view(request.out[0])),
        share_(share_of_pixel(op_as<GlobalAvgPoolBackward>(request).pixels, view_)),
        packed_(packs_fit(view_)),
        columns_(plan_columns({.view = view_, .group = 1, .pack = packed_ ? static_cast<int>(16 / size_of(dtype_)) : 1},
                              device())) {}

  void run(const StepContext&) override {
    with_element(dtype_, [&](auto element) {
      using T = typename decltype(element)::type;
      packed_ ? spread<T, Pack<T>::kCount>() : spread<T, 1>();
    });
  }

 private:
  template <class T, int kPack>
  void spread() {
    spread_mean<T, kPack><<<columns_.blocks(), kColumnThreads, coefficient_bytes<kPack, 1>(columns_), stream()>>>(
        columns_, share_, in<T>(0), out<T>(0));
    check_launch("spread_mean");
  }

  DType dtype_;
  ImageView view_;
  float share_;
  bool packed_;
  Columns columns_;
};

const RegisterKernel register_pooling_max_forward(cuda_backend(), "max_pool.forward",
                                                  make_kernel<PoolForwardKernel<MaxPoolForward, PoolKind::max>>);
const RegisterKernel register_pooling_max_backward(cuda_backend(), "max_pool.backward",
                                                   make_kernel<PoolBackwardKernel<MaxPoolBackward, PoolKind::max>>);
const RegisterKernel register_pooling_avg_forward(cuda_backend(), "avg_pool.forward",
                                                  make_kernel<PoolForwardKernel<AvgPoolForward, PoolKind::avg>>);
const RegisterKernel register_pooling_avg_backward(cuda_backend(), "avg_pool.backward",
                                                   make_kernel<PoolBackwardKernel<AvgPoolBackward, PoolKind::avg>>);
const RegisterKernel register_pooling_global_forward(cuda_backend(), "global_avg_pool.forward",
                                                     make_kernel<GlobalAvgPoolForwardKernel>);
const RegisterKernel register_pooling_global_backward(cuda_backend(), "global_avg_pool.backward",
                                                      make_kernel<GlobalAvgPoolBackwardKernel>);

}  // namespace
}  // namespace trifold::cuda
