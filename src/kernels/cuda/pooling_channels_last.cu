// Pooling of NHWC images by strips (pooling_strips.cuh): what neighbouring windows share is read once.
#include <algorithm>
#include <type_traits>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/pooling_kernels.h"
#include "kernels/cuda/pooling_strips.cuh"

namespace trifold::cuda {
namespace {

// kPack elements in shared memory, and their places in windows.
template <class T, int kPack>
using Raw = RawElements<kPack, T>;
template <int kPack>
using RawPlaces = typename RawBytes<kPack>::type;

// The value itself. The compiler, which would else load what it is made of element by element, cannot look into it.
__device__ __forceinline__ uint4 whole(uint4 raw) {
  asm("" : "+r"(raw.x), "+r"(raw.y), "+r"(raw.z), "+r"(raw.w));
  return raw;
}
__device__ __forceinline__ uint2 whole(uint2 raw) {
  asm("" : "+r"(raw.x), "+r"(raw.y));
  return raw;
}
__device__ __forceinline__ unsigned whole(unsigned raw) {
  asm("" : "+r"(raw));
  return raw;
}
template <class Small>
__device__ __forceinline__ Small whole(Small raw) {
  return raw;
}

template <class T>
struct ForwardArgs {
  Windows windows;
  Strips strips;
  const T* x;
  T* y;
  std::uint8_t* argmax;  // or null
};

// In the ring, columns of x that are a stride apart are neighbours: windows side by side then read neighbours. Rows and
// columns are counted from the padding's first.
template <class T, int kPack, PoolKind kKind>
__global__ void __launch_bounds__(kStripThreads) pool_strips(ForwardArgs<T> args) {
  extern __shared__ uint4 shared_packs[];
  auto* ring = reinterpret_cast<Raw<T, kPack>*>(shared_packs);
  const Windows& w = args.windows;
  const Strips& s = args.strips;
  const Strip strip = strip_of_block(s, w.out_height, w.out_width);
  const std::int64_t channels = std::int64_t{s.pixel_packs} * kPack;
  const int columns = strip.end_column - strip.first_column;
  const int left = strip.first_column * w.stride_width - w.pad_width;  // column 0 in x
  const int end = min(w.columns_read(columns), w.width - left);

  int read = 0;  // rows before this one are in the ring, or no longer needed
  for (int p = strip.first_row; p < strip.end_row; p += s.step_rows) {
    const int end_p = min(strip.end_row, p + s.step_rows);
    const int begin = max(read, p * w.stride_height);
    read = p * w.stride_height + w.rows_read(end_p - p);
    __syncthreads();  // the rows before are pooled
    for_each_item(s.read_line, s.packs, read - begin, [&](int row, int column, int pack) {
      std::uint32_t run;
      const std::uint32_t at = w.by_stride_width.divide(static_cast<std::uint32_t>(column), &run);
      const int h = begin + row - w.pad_height;
      if (h < 0 || h >= w.height || left + column < 0 || column >= end) return;
      if (run >= s.runs || pack >= strip.packs) return;
      const std::int64_t pixel = (strip.sample * w.height + h) * w.width + left + column;
      ring[s.place(begin + row, run, at) + pack] =
          load_raw<kPack>(args.x + pixel * channels + (strip.first_pack + pack) * kPack);
    });
    __syncthreads();
    for_each_item(s.written_line, s.packs, end_p - p, [&](int row, int column, int pack) {
      if (column >= columns || pack >= strip.packs) return;
      const Windows::Span rows = w.rows_of(p + row);
      const Windows::Span inside = w.columns_of(strip.first_column + column);
      WindowResult<kKind, kPack> result;
      for (int kr = rows.begin; kr < rows.end; ++kr)
        for (int ks = 0; ks < w.kernel_width; ++ks) {  // in step with the warp's other windows
          if (ks < inside.begin || ks >= inside.end) continue;
          std::uint32_t run;
          const std::uint32_t at = w.by_stride_width.divide(static_cast<std::uint32_t>(ks), &run);
          float x[kPack];
          unpack<T>(whole(ring[s.place((p + row) * w.stride_height + kr, run, column + at) + pack]), x);
          result.add(x, kr * w.kernel_width + ks);
        }
      if constexpr (kKind == PoolKind::avg) {
        const float share = 1 / w.divisor(rows, inside);
#pragma unroll
        for (int k = 0; k < kPack; ++k) result.value[k] *= share;
      }
      const std::int64_t window = (strip.sample * w.out_height + p + row) * w.out_width + strip.first_column + column;
      const std::int64_t to = window * channels + (strip.first_pack + pack) * kPack;
      store_floats(args.y + to, result.value);
      if (kKind == PoolKind::max && args.argmax != nullptr) {
        RawPlaces<kPack> raw;
        __builtin_memcpy(&raw, result.place, kPack);
        *reinterpret_cast<RawPlaces<kPack>*>(args.argmax + to) = raw;
      }
    });
  }
}

template <class T>
struct BackwardArgs {
  Windows windows;
  Strips strips;
  const T* dy;
  const std::uint8_t* argmax;
  const T* y;  // or null
  T* dx;
};

// dy at `from`, and zero where y says that a relu was not passed.
template <class T, int kPack>
__device__ __forceinline__ Raw<T, kPack> load_gated(const T* dy, const T* y, std::int64_t from) {
  const Raw<T, kPack> raw = load_raw<kPack>(dy + from);
  if (y == nullptr) return raw;
  T d[kPack];
  __builtin_memcpy(d, &raw, sizeof(raw));
  float gate[kPack];
  load_floats(y + from, gate);
#pragma unroll
  for (int k = 0; k < kPack; ++k)
    if (!(gate[k] > 0)) d[k] = T(0.0f);
  Raw<T, kPack> gated;
  __builtin_memcpy(&gated, d, sizeof(gated));
  return gated;
}

template <class T, int kPack, PoolKind kKind>
__global__ void __launch_bounds__(kStripThreads) unpool_strips(BackwardArgs<T> args) {
  extern __shared__ uint4 shared_packs[];
  const Windows& w = args.windows;
  const Strips& s = args.strips;
  auto* gradients = reinterpret_cast<Raw<T, kPack>*>(shared_packs);  // a ring of windows
  auto* places =                                                     // and another
      reinterpret_cast<RawPlaces<kPack>*>(gradients + s.ring_rows.divisor() * s.run_columns * s.packs.divisor());
  const Strip strip = strip_of_block(s, w.height, w.width);
  const std::int64_t channels = std::int64_t{s.pixel_packs} * kPack;
  const int first_q = w.first_window_column(strip.first_column);
  const int end_q = w.end_window_column(strip.end_column - 1);

  int read = 0;  // windows of rows before this one are in the rings, or no longer needed
  for (int h = strip.first_row; h < strip.end_row; h += s.step_rows) {
    const int end_h = min(strip.end_row, h + s.step_rows);
    const int begin = max(read, w.first_window_row(h));
    read = max(begin, w.end_window_row(end_h - 1));
    __syncthreads();  // the rows before are done
    for_each_item(s.read_line, s.packs, read - begin, [&](int row, int column, int pack) {
      if (first_q + column >= end_q || pack >= strip.packs) return;
      const std::int64_t window = (strip.sample * w.out_height + begin + row) * w.out_width + first_q + column;
      const std::int64_t from = window * channels + (strip.first_pack + pack) * kPack;
      const int to = s.place(begin + row, 0, column) + pack;
      gradients[to] = load_gated<T, kPack>(args.dy, args.y, from);
      if constexpr (kKind == PoolKind::max) places[to] = *reinterpret_cast<const RawPlaces<kPack>*>(args.argmax + from);
    });
    __syncthreads();
    for_each_item(s.written_line, s.packs, end_h - h, [&](int row, int column, int pack) {
      const int c = strip.first_column + column;
      if (c >= strip.end_column || pack >= strip.packs) return;
      const int last_p = w.end_window_row(h + row) - 1;
      const int last_q = w.end_window_column(c) - 1;
      float dx[kPack] = {};
      for (int p = w.first_window_row(h + row); p <= last_p; ++p)
        for (int q = w.first_window_column(c); q <= last_q; ++q) {
          const int at = s.place(p, 0, q - first_q) + pack;
          float d[kPack];
          unpack<T>(whole(gradients[at]), d);
          const Windows::Span rows = w.rows_of(p);
          const Windows::Span inside = w.columns_of(q);
          if constexpr (kKind == PoolKind::max) {
            const RawPlaces<kPack> raw = whole(places[at]);
            std::uint8_t of_maximum[kPack];
            __builtin_memcpy(of_maximum, &raw, kPack);
            const int mine = (h + row - rows.first) * w.kernel_width + c - inside.first;
#pragma unroll
            for (int k = 0; k < kPack; ++k) dx[k] += of_maximum[k] == mine ? d[k] : 0.0f;
          } else {
            const float share = 1 / w.divisor(rows, inside);
#pragma unroll
            for (int k = 0; k < kPack; ++k) dx[k] += d[k] * share;
          }
        }
      const std::int64_t pixel = (strip.sample * w.height + h + row) * w.width + c;
      store_floats(args.dx + pixel * channels + (strip.first_pack + pack) * kPack, dx);
    });
  }
}

// Calls launch(std::integral_constant<PoolKind, kind>).
template <class Launch>
void with_kind(PoolKind kind, const Launch& launch) {
  if (kind == PoolKind::max)
    launch(std::integral_constant<PoolKind, PoolKind::max>{});
  else
    launch(std::integral_constant<PoolKind, PoolKind::avg>{});
}

}  // namespace

void pool_channels_last(const PoolForwardArgs& args, const CudaDevice& device, cudaStream_t stream) {
  with_element(args.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    const auto launch = [&](auto kernel, int pack) {
      const Windows& w = args.windows;
      const int pack_bytes = pack * static_cast<int>(sizeof(T));
      const Strips strips = plan_strips(w,
                                        {.samples = args.samples,
                                         .packs = args.channels / pack,
                                         .rows = w.out_height,
                                         .columns = w.out_width,
                                         .pack_bytes = pack_bytes,
                                         .rows_read = &Windows::rows_read,
                                         .columns_read = &Windows::columns_read,
                                         .read_pack_bytes = pack_bytes,
                                         .stride = w.stride_width,
                                         .runs = std::min(w.stride_width, w.kernel_width)},
                                        device);
      if (strips.blocks == 0) return;
      const ForwardArgs<T> kernel_args{w, strips, static_cast<const T*>(args.x), static_cast<T*>(args.y), args.argmax};
      kernel<<<strips.blocks, kStripThreads, strips.ring_bytes, stream>>>(kernel_args);
      check_launch("pool_strips");
    };
    constexpr int kPack = Pack<T>::kCount;
    with_kind(args.kind, [&](auto kind) {
      if (args.channels % kPack == 0 && aligned_for_packs(args.x, args.y, args.argmax))
        launch(pool_strips<T, kPack, kind()>, kPack);
      else
        launch(pool_strips<T, 1, kind()>, 1);
    });
  });
}

void unpool_channels_last(const PoolBackwardArgs& args, const CudaDevice& device, cudaStream_t stream) {
  with_element(args.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    const auto launch = [&](auto kernel, int pack) {
      const Windows& w = args.windows;
      const int pack_bytes = pack * static_cast<int>(sizeof(T));
      const Strips strips = plan_strips(w,
                                        {.samples = args.samples,
                                         .packs = args.channels / pack,
                                         .rows = w.height,
                                         .columns = w.width,
                                         .pack_bytes = pack_bytes,
                                         .rows_read = &Windows::covering_rows,
                                         .columns_read = &Windows::covering_columns,
                                         .read_pack_bytes = pack_bytes + (args.kind == PoolKind::max ? pack : 0),
                                         .stride = 1,
                                         .runs = 1},
                                        device);
      if (strips.blocks == 0) return;
      const BackwardArgs<T> kernel_args{w,
                                        strips,
                                        static_cast<const T*>(args.dy),
                                        args.argmax,
                                        static_cast<const T*>(args.y),
                                        static_cast<T*>(args.dx)};
      kernel<<<strips.blocks, kStripThreads, strips.ring_bytes, stream>>>(kernel_args);
      check_launch("unpool_strips");
    };
    constexpr int kPack = Pack<T>::kCount;
    with_kind(args.kind, [&](auto kind) {
      if (args.channels % kPack == 0 && aligned_for_packs(args.dy, args.argmax, args.y, args.dx))
        launch(unpool_strips<T, kPack, kind()>, kPack);
      else
        launch(unpool_strips<T, 1, kind()>, 1);
    });
  });
}

}  // namespace trifold::cuda
