// Pooling of NHWC images: a thread has a pack of neighbouring channels of one window, or of a cell of 2 x 2 pixels.
#include <type_traits>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/pooling_kernels.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kCell = 2;

// Items are (sample, row, column, pack of channels), the last fastest.
struct Items {
  FastDivisor packs, columns, rows;
  std::uint32_t count;
};

struct Item {
  std::uint32_t pack, column, row, sample;
};

__device__ __forceinline__ Item item_at(const Items& items, std::uint32_t index) {
  Item item;
  item.sample = items.rows.divide(items.columns.divide(items.packs.divide(index, &item.pack), &item.column), &item.row);
  return item;
}

template <class T>
struct ForwardArgs {
  Windows windows;
  Items items;
  const T* x;
  T* y;
  std::uint8_t* argmax;  // or null
};

template <class T, int kPack, PoolKind kKind>
__global__ void __launch_bounds__(kThreads) pool(ForwardArgs<T> args) {
  const Windows& w = args.windows;
  const std::int64_t channels = std::int64_t{args.items.packs.divisor()} * kPack;
  for (std::uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < args.items.count; i += gridDim.x * kThreads) {
    const Item item = item_at(args.items, i);
    const Windows::Span rows = w.rows_of(static_cast<int>(item.row));
    const Windows::Span columns = w.columns_of(static_cast<int>(item.column));
    float result[kPack] = {};
    std::uint8_t place[kPack] = {};
    bool first = true;
    for (int r = rows.begin; r < rows.end; ++r)
      for (int s = columns.begin; s < columns.end; ++s) {
        const std::int64_t pixel =
            (std::int64_t{item.sample} * w.height + rows.first + r) * w.width + columns.first + s;
        float x[kPack];
        load_floats(args.x + pixel * channels + item.pack * kPack, x);
#pragma unroll
        for (int k = 0; k < kPack; ++k) {
          if constexpr (kKind == PoolKind::avg) {
            result[k] += x[k];
          } else if (first || x[k] > result[k]) {
            result[k] = x[k];
            place[k] = static_cast<std::uint8_t>(r * w.kernel_width + s);
          }
        }
        first = false;
      }
    if constexpr (kKind == PoolKind::avg) {
      const float share = 1 / w.divisor(rows, columns);
#pragma unroll
      for (int k = 0; k < kPack; ++k) result[k] *= share;
    }
    const std::int64_t at = std::int64_t{i} * kPack;
    store_floats(args.y + at, result);
    if (kKind == PoolKind::max && args.argmax != nullptr) {
      typename RawBytes<kPack>::type raw;
      __builtin_memcpy(&raw, place, kPack);
      *reinterpret_cast<decltype(raw)*>(args.argmax + at) = raw;
    }
  }
}

template <class T>
struct BackwardArgs {
  Windows windows;
  Items items;  // cells of dx
  const T* dy;
  const std::uint8_t* argmax;
  const T* y;  // or null
  T* dx;
};

// A window is read once for all pixels of the cell that it covers.
template <class T, int kPack, PoolKind kKind>
__global__ void __launch_bounds__(kThreads) unpool(BackwardArgs<T> args) {
  const Windows& w = args.windows;
  const std::int64_t channels = std::int64_t{args.items.packs.divisor()} * kPack;
  for (std::uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < args.items.count; i += gridDim.x * kThreads) {
    const Item item = item_at(args.items, i);
    const int top = static_cast<int>(item.row) * kCell;
    const int left = static_cast<int>(item.column) * kCell;
    const int end_p = w.end_window_row(min(top + kCell, w.height) - 1);
    const int end_q = w.end_window_column(min(left + kCell, w.width) - 1);
    float dx[kCell][kCell][kPack] = {};
    for (int p = w.first_window_row(top); p < end_p; ++p)
      for (int q = w.first_window_column(left); q < end_q; ++q) {
        const std::int64_t window = (std::int64_t{item.sample} * w.out_height + p) * w.out_width + q;
        const std::int64_t at = window * channels + item.pack * kPack;
        float d[kPack];
        load_floats(args.dy + at, d);
        if (args.y != nullptr) {
          float y[kPack];
          load_floats(args.y + at, y);
#pragma unroll
          for (int k = 0; k < kPack; ++k) d[k] = y[k] > 0 ? d[k] : 0.0f;
        }
        const Windows::Span rows = w.rows_of(p);
        const Windows::Span columns = w.columns_of(q);
        std::uint8_t place[kPack] = {};
        if constexpr (kKind == PoolKind::max) {
          const auto raw = *reinterpret_cast<const typename RawBytes<kPack>::type*>(args.argmax + at);
          __builtin_memcpy(place, &raw, kPack);
        } else {
          const float share = 1 / w.divisor(rows, columns);
#pragma unroll
          for (int k = 0; k < kPack; ++k) d[k] *= share;
        }
#pragma unroll
        for (int a = 0; a < kCell; ++a)
#pragma unroll
          for (int b = 0; b < kCell; ++b) {
            const int r = top + a - rows.first;
            const int s = left + b - columns.first;
            if (r < rows.begin || r >= rows.end || s < columns.begin || s >= columns.end) continue;
#pragma unroll
            for (int k = 0; k < kPack; ++k)
              if (kKind == PoolKind::avg || place[k] == r * w.kernel_width + s) dx[a][b][k] += d[k];
          }
      }
#pragma unroll
    for (int a = 0; a < kCell; ++a)
#pragma unroll
      for (int b = 0; b < kCell; ++b) {
        if (top + a >= w.height || left + b >= w.width) continue;
        const std::int64_t pixel = (std::int64_t{item.sample} * w.height + top + a) * w.width + left + b;
        store_floats(args.dx + pixel * channels + item.pack * kPack, dx[a][b]);
      }
  }
}

Items make_items(std::int64_t samples, std::int64_t rows, std::int64_t columns, std::int64_t packs) {
  const std::int64_t count = samples * rows * columns * packs;
  TRIFOLD_CHECK(count < (std::int64_t{1} << 31), "{} windows are too many for one launch", count);
  return {FastDivisor(packs), FastDivisor(columns), FastDivisor(rows), static_cast<std::uint32_t>(count)};
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
      const Items items =
          make_items(args.samples, args.windows.out_height, args.windows.out_width, args.channels / pack);
      if (items.count == 0) return;
      const ForwardArgs<T> kernel_args{args.windows, items, static_cast<const T*>(args.x), static_cast<T*>(args.y),
                                       args.argmax};
      kernel<<<blocks_for(items.count, kThreads, device), kThreads, 0, stream>>>(kernel_args);
      check_launch("pool");
    };
    constexpr int kPack = Pack<T>::kCount;
    with_kind(args.kind, [&](auto kind) {
      if (args.channels % kPack == 0 && aligned_for_packs(args.x, args.y, args.argmax))
        launch(pool<T, kPack, kind()>, kPack);
      else
        launch(pool<T, 1, kind()>, 1);
    });
  });
}

void unpool_channels_last(const PoolBackwardArgs& args, const CudaDevice& device, cudaStream_t stream) {
  with_element(args.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    const auto launch = [&](auto kernel, int pack) {
      const auto cells = [](int pixels) { return (pixels + kCell - 1) / kCell; };
      const Items items =
          make_items(args.samples, cells(args.windows.height), cells(args.windows.width), args.channels / pack);
      if (items.count == 0) return;
      const BackwardArgs<T> kernel_args{args.windows,
                                        items,
                                        static_cast<const T*>(args.dy),
                                        args.argmax,
                                        static_cast<const T*>(args.y),
                                        static_cast<T*>(args.dx)};
      kernel<<<blocks_for(items.count, kThreads, device), kThreads, 0, stream>>>(kernel_args);
      check_launch("unpool");
    };
    constexpr int kPack = Pack<T>::kCount;
    with_kind(args.kind, [&](auto kind) {
      if (args.channels % kPack == 0 && aligned_for_packs(args.dy, args.argmax, args.y, args.dx))
        launch(unpool<T, kPack, kind()>, kPack);
      else
        launch(unpool<T, 1, kind()>, 1);
    });
  });
}

}  // namespace trifold::cuda
