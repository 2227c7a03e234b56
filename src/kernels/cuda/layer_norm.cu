// Layer norm. Where a place's channels are neighbours (NHWC, features), a warp has the place; where neighbours are the
// places of one channel (NCHW), a block has 32 of them, each of its warps some of the channels. Either way loads are
// coalesced, and what is read twice is in the cache the second time. The parameters' gradients are sums over columns
// (column_reduce.cuh).
#include "kernels/cuda/column_reduce.cuh"
#include "kernels/ops/layer_norm.h"

namespace trifold::cuda {
namespace {

constexpr int kLayerNormThreads = 256;
constexpr int kLayerNormWarps = kLayerNormThreads / 32;
constexpr int kLayerNormBlocks = 4;  // a multiprocessor: without it ptxas makes do with 32 registers, and spills

struct Places {
  std::int64_t count;
  int channels;
  int pixels;

  explicit Places(const ImageView& view)
      : count(view.samples * view.pixels),
        channels(static_cast<int>(view.channels)),
        pixels(static_cast<int>(view.pixels)) {
    TRIFOLD_CHECK(view.channels < (1 << 30) && view.pixels < (1 << 30), "a layer norm of {} channels of {} pixels",
                  view.channels, view.pixels);
  }
};

// What a thread has of its place: kPack channels from `channel` on, then those `step` further on.
template <bool kRows, int kPack>
struct PlaceWalk {
  std::int64_t place;
  std::int64_t first;  // the place's first channel in the tensor
  int channel, step;
  int end;  // 0 for a thread past the last place
  int stride;

  __device__ __forceinline__ explicit PlaceWalk(const Places& places) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    place = kRows ? std::int64_t{blockIdx.x} * kLayerNormWarps + warp : std::int64_t{blockIdx.x} * 32 + lane;
    const std::int64_t sample = place / places.pixels;
    first = kRows ? place * places.channels : place + sample * (places.channels - 1) * places.pixels;
    channel = kRows ? lane * kPack : warp;
    step = kRows ? 32 * kPack : kLayerNormWarps;
    end = place < places.count ? places.channels : 0;
    stride = kRows ? 1 : places.pixels;
  }
  static unsigned blocks(const Places& places) {
    constexpr int kPlaces = kRows ? kLayerNormWarps : 32;
    return static_cast<unsigned>((places.count + kPlaces - 1) / kPlaces);
  }

  __device__ __forceinline__ bool inside() const { return end > 0; }
  __device__ __forceinline__ bool stores_statistics() const { return inside() && channel == 0; }
  // body(channel, index into the tensor)
  template <class Body>
  __device__ __forceinline__ void for_each(const Body& body) const {
    for (int c = channel; c < end; c += step) body(c, first + std::int64_t{c} * stride);
  }
  // The part of the whole place, in all its threads: merged in the same order each time.
  template <class Part>
  __device__ __forceinline__ Part merged(Part part) const {
    constexpr unsigned kAllLanes = 0xffffffffu;
    if constexpr (kRows) {
#pragma unroll
      for (int offset = 16; offset > 0; offset /= 2)
        part.merge({__shfl_down_sync(kAllLanes, part.count, offset), __shfl_down_sync(kAllLanes, part.first, offset),
                    __shfl_down_sync(kAllLanes, part.second, offset)});
      return {__shfl_sync(kAllLanes, part.count, 0), __shfl_sync(kAllLanes, part.first, 0),
              __shfl_sync(kAllLanes, part.second, 0)};
    } else {
      __shared__ Part parts[kLayerNormThreads];  // 12 bytes each: three banks apart, no conflicts
      parts[threadIdx.x] = part;
      __syncthreads();
      Part whole = parts[threadIdx.x % 32];
#pragma unroll
      for (int warp = 1; warp < kLayerNormWarps; ++warp) whole.merge(parts[warp * 32 + threadIdx.x % 32]);
      return whole;
    }
  }
};

// kPack neighbours of an array of floats that is aligned for packs, four at a time.
template <int kPack>
__device__ __forceinline__ void load_neighbours(const float* from, float (&to)[kPack]) {
  if constexpr (kPack < 4) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) to[i] = from[i];
  } else {
#pragma unroll
    for (int i = 0; i < kPack; i += 4) {
      float four[4];
      load_floats(from + i, four);
#pragma unroll
      for (int k = 0; k < 4; ++k) to[i + k] = four[k];
    }
  }
}

template <class T>
struct LayerNormForwardArgs {
  float eps;
  const T* x;
  const float* weight;
  const float* bias;
  T* y;         // may be x
  float* mean;  // or null
  float* istd;
};

// All arithmetic is on distances from the place's first channel: x - mean would have few digits left where the mean is
// large against the deviation, and a mean that is rounded to float is off by more than that.
template <class T, bool kRows, int kPack>
__global__ void __launch_bounds__(kLayerNormThreads, kLayerNormBlocks)
    layer_norm_forward(Places places, LayerNormForwardArgs<T> args) {
  const PlaceWalk<kRows, kPack> walk(places);
  const float center = walk.inside() ? to_float(args.x[walk.first]) : 0;
  MomentPart moments{0, 0, 0};
  walk.for_each([&](int, std::int64_t at) {
    float value[kPack];
    load_floats(args.x + at, value);
    float pack_mean = 0;
    float pack_squares = 0;
#pragma unroll
    for (int i = 0; i < kPack; ++i) pack_mean += (value[i] - center) / kPack;
#pragma unroll
    for (int i = 0; i < kPack; ++i) pack_squares += (value[i] - center - pack_mean) * (value[i] - center - pack_mean);
    moments.merge({kPack, pack_mean, pack_squares});
  });
  moments = walk.merged(moments);
  const float istd = 1 / sqrtf(moments.second / static_cast<float>(places.channels) + args.eps);
  if (args.mean != nullptr && walk.stores_statistics()) {
    args.mean[walk.place] = center + moments.first;
    args.istd[walk.place] = istd;
  }
  walk.for_each([&](int channel, std::int64_t at) {
    float value[kPack], weight[kPack], bias[kPack];
    load_floats(args.x + at, value);
    load_neighbours(args.weight + channel, weight);
    load_neighbours(args.bias + channel, bias);
#pragma unroll
    for (int i = 0; i < kPack; ++i) value[i] = (value[i] - center - moments.first) * istd * weight[i] + bias[i];
    store_floats(args.y + at, value);
  });
}

template <class T>
struct LayerNormInputArgs {
  const T* dy;
  const T* x;
  const float* mean;
  const float* istd;
  const float* weight;
  T* dx;  // may be dy or x
};

template <class T, bool kRows, int kPack>
__global__ void __launch_bounds__(kLayerNormThreads, kLayerNormBlocks)
    layer_norm_input_gradient(Places places, LayerNormInputArgs<T> args) {
  const PlaceWalk<kRows, kPack> walk(places);
  const float mean = walk.inside() ? args.mean[walk.place] : 0;
  const float istd = walk.inside() ? args.istd[walk.place] : 0;
  const auto load = [&](int channel, std::int64_t at, float(&g)[kPack], float(&distance)[kPack]) {
    float weight[kPack];
    load_floats(args.dy + at, g);
    load_floats(args.x + at, distance);
    load_neighbours(args.weight + channel, weight);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      g[i] *= weight[i];
      distance[i] -= mean;
    }
  };
  SumPart sums{0, 0, 0};
  walk.for_each([&](int channel, std::int64_t at) {
    float g[kPack], distance[kPack];
    load(channel, at, g, distance);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums.merge({1, g[i], g[i] * distance[i]});
  });
  sums = walk.merged(sums);
  const auto count = static_cast<float>(places.channels);
  const float mean_g = sums.first / count;
  const float slope = sums.second / count * istd * istd;
  const float scale = places.channels > 1 ? istd : 0;  // of one channel y is the bias, and rounding no gradient
  walk.for_each([&](int channel, std::int64_t at) {
    float g[kPack], distance[kPack];
    load(channel, at, g, distance);
#pragma unroll
    for (int i = 0; i < kPack; ++i) g[i] = scale * (g[i] - mean_g - distance[i] * slope);
    store_floats(args.dx + at, g);
  });
}

// The kernels that walk over places, as the layout of x asks for. `parameters` are read in packs, too.
class PlacesKernel : public CudaKernel {
 protected:
  PlacesKernel(const KernelRequest& request, const TensorDesc& x)
      : CudaKernel(request), dtype_(x.dtype), view_(image_view(x)), places_(view_) {}

  const Places& places() const { return places_; }

  // launch(ElementType<T>, rows, pack) with the last two as integral constants
  template <class Launch, class... Parameters>
  void by_layout(const Launch& launch, const Parameters*... parameters) const {
    with_element(dtype_, [&](auto element) {
      constexpr int kPack = Pack<typename decltype(element)::type>::kCount;
      if (view_.block == 1 && view_.pixels > 1)
        launch(element, std::false_type(), std::integral_constant<int, 1>());
      else if (view_.channels % kPack == 0 && aligned_for_packs(parameters...))
        launch(element, std::true_type(), std::integral_constant<int, kPack>());
      else
        launch(element, std::true_type(), std::integral_constant<int, 1>());
    });
  }

 private:
  DType dtype_;
  ImageView view_;
  Places places_;
};

class LayerNormForwardKernel final : public PlacesKernel {
 public:
  explicit LayerNormForwardKernel(const KernelRequest& request)
      : PlacesKernel(request, request.in[0]), op_(op_as<LayerNormForward>(request)) {}

  void run(const StepContext&) override {
    by_layout(
        [&](auto element, auto rows, auto pack) {
          using T = typename decltype(element)::type;
          const LayerNormForwardArgs<T> args{.eps = static_cast<float>(op_.eps),
                                             .x = in<T>(0),
                                             .weight = in(1),
                                             .bias = in(2),
                                             .y = out<T>(0),
                                             .mean = op_.keep_statistics ? out(1) : nullptr,
                                             .istd = op_.keep_statistics ? out(2) : nullptr};
          layer_norm_forward<T, rows(), pack()>
              <<<PlaceWalk<rows(), pack()>::blocks(places()), kLayerNormThreads, 0, stream()>>>(places(), args);
          check_launch("layer_norm_forward");
        },
        in(1), in(2));
  }

 private:
  LayerNormForward op_;
};

class LayerNormBackwardInputKernel final : public PlacesKernel {
 public:
  explicit LayerNormBackwardInputKernel(const KernelRequest& request) : PlacesKernel(request, request.in[1]) {}

  void run(const StepContext&) override {
    by_layout(
        [&](auto element, auto rows, auto pack) {
          using T = typename decltype(element)::type;
          const LayerNormInputArgs<T> args{
              .dy = in<T>(0), .x = in<T>(1), .mean = in(2), .istd = in(3), .weight = in(4), .dx = out<T>(0)};
          layer_norm_input_gradient<T, rows(), pack()>
              <<<PlaceWalk<rows(), pack()>::blocks(places()), kLayerNormThreads, 0, stream()>>>(places(), args);
          check_launch("layer_norm_input_gradient");
        },
        in(4));
  }
};

template <class T>
struct LayerNormParameterArgs {
  const T* dy;
  const T* x;
  const float* mean;
  const float* istd;
};

// What a thread's columns read of the statistics of their row of places, the first of which belongs to `pixel`.
template <int kPack>
__device__ __forceinline__ void load_statistics(const Columns& c, const float* row, int pixel, float (&to)[kPack]) {
  if (c.columns_per_channel % kPack == 0) return load_neighbours(row + pixel, to);
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    to[i] = row[pixel];
    pixel = pixel + 1 == c.columns_per_channel ? 0 : pixel + 1;
  }
}

// first: sum of dy * (x - mean) * istd, second: sum of dy. A column is of one pixel, in all rows.
template <class T, int kPack>
__global__ void __launch_bounds__(kColumnThreads)
    layer_norm_parameter_parts(Columns c, LayerNormParameterArgs<T> args, float2* parts) {
  const ColumnPlace place = column_place<kPack>(c);
  const int pixel = place.column % c.columns_per_channel;
  float count = 0;
  float sum_dx[kPack] = {};
  float sum_d[kPack] = {};
  std::int64_t at = place.row * c.columns + place.column;
  for (std::int64_t row = place.row; row < place.end_row; row += c.threads_down) {
    float dy[kPack], x[kPack], mean[kPack], istd[kPack];
    load_floats(args.dy + at, dy);
    load_floats(args.x + at, x);
    load_statistics(c, args.mean + row * c.columns_per_channel, pixel, mean);
    load_statistics(c, args.istd + row * c.columns_per_channel, pixel, istd);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      sum_dx[i] += dy[i] * ((x[i] - mean[i]) * istd[i]);
      sum_d[i] += dy[i];
    }
    count += 1;
    at += std::int64_t{c.threads_down} * c.columns;
  }
  reduce_columns<SumPart, kPack>(c, place, count, sum_dx, sum_d, PartStore(c, place, parts));
}

struct LayerNormParameterResult {
  float* dweight;
  float* dbias;

  __device__ __forceinline__ void begin(int) {}
  __device__ __forceinline__ void add(std::int64_t, int channel, const SumPart& part) {  // of the only group
    dweight[channel] = part.first;
    dbias[channel] = part.second;
  }
  __device__ __forceinline__ void end(int) {}
};

__global__ void __launch_bounds__(kMergeThreads)
    merge_layer_norm_parameters(Columns c, const float2* parts, LayerNormParameterResult result) {
  merge_parts<SumPart>(c, parts, result);
}

class LayerNormBackwardParametersKernel final : public CudaKernel {
 public:
  explicit LayerNormBackwardParametersKernel(const KernelRequest& request)
      : CudaKernel(request),
        dtype_(request.in[1].dtype),
        view_(image_view(request.in[1])),
        packed_(packs_fit(view_)),
        columns_(plan_columns({.view = view_,
                               .group = view_.samples,
                               .pack = packed_ ? static_cast<int>(16 / size_of(dtype_)) : 1,
                               .least_rows_per_channel = 128},
                              device())) {}

  std::size_t scratch_bytes() const override { return column_parts_bytes(columns_); }

  void run(const StepContext&) override {
    auto* parts = reinterpret_cast<float2*>(scratch());
    with_element(dtype_, [&](auto element) {
      using T = typename decltype(element)::type;
      packed_ ? sum<T, Pack<T>::kCount>(parts) : sum<T, 1>(parts);
    });
    merge_layer_norm_parameters<<<merge_blocks(columns_), kMergeThreads, 0, stream()>>>(
        columns_, parts, {.dweight = out(0), .dbias = out(1)});
    check_launch("merge_layer_norm_parameters");
  }

 private:
  template <class T, int kPack>
  void sum(float2* parts) {
    const LayerNormParameterArgs<T> args{.dy = in<T>(0), .x = in<T>(1), .mean = in(2), .istd = in(3)};
    layer_norm_parameter_parts<T, kPack>
        <<<columns_.blocks(), kColumnThreads, column_reduce_bytes<kPack>(), stream()>>>(columns_, args, parts);
    check_launch("layer_norm_parameter_parts");
  }

  DType dtype_;
  ImageView view_;
  bool packed_;
  Columns columns_;
};

const RegisterKernel register_layer_norm_forward(cuda_backend(), "layer_norm.forward",
                                                 make_kernel<LayerNormForwardKernel>);
const RegisterKernel register_layer_norm_backward_input(cuda_backend(), "layer_norm.backward_input",
                                                        make_kernel<LayerNormBackwardInputKernel>);
const RegisterKernel register_layer_norm_backward_parameters(cuda_backend(), "layer_norm.backward_parameters",
                                                             make_kernel<LayerNormBackwardParametersKernel>);

}  // namespace
}  // namespace trifold::cuda
