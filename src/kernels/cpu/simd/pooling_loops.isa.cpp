// The loops of pooling_loops.h. A plane is [H][W][kWidth]: one channel of a plain image (kWidth 1) or the channels of a
// vector (kWidth kLanes); both come from one template over the "lane" type. Max pool's backward gathers: each pixel of
// dx looks at the windows that cover it, so dx is written once and never read.
#include "kernels/cpu/simd/pooling_loops.h"

#include "kernels/cpu/simd/channel_rows.h"

namespace trifold::cpu::TRIFOLD_ISA {

extern const PoolingLoops pooling_loops_table;

namespace {

struct VectorLane {
  using Value = Vec;
  using Index = IVec;
  static constexpr std::int64_t kWidth = kLanes;

  static Vec load(const float* p) { return TRIFOLD_ISA::load(p); }
  static void store(float* p, Vec v) { TRIFOLD_ISA::store(p, v); }
  static IVec load_index(const std::uint8_t* p) { return load_bytes(p); }
  static void store_index(std::uint8_t* p, IVec index) { store_bytes(p, index); }
  static void take_larger(Vec& best, IVec& index, Vec v, int tap) {
    index = select(v > best, IVec{} + tap, index);
    best = max(v, best);
  }
  static Vec positive(Vec v) { return max(zero(), v); }
  static Vec pass_if_positive(Vec y, Vec d) { return keep(y > zero(), d); }
  static Vec pass_if_tap(IVec index, int tap, Vec d) { return keep(index == tap, d); }
};

struct ScalarLane {
  using Value = float;
  using Index = int;
  static constexpr std::int64_t kWidth = 1;

  static float load(const float* p) { return *p; }
  static void store(float* p, float v) { *p = v; }
  static int load_index(const std::uint8_t* p) { return *p; }
  static void store_index(std::uint8_t* p, int index) { *p = static_cast<std::uint8_t>(index); }
  static void take_larger(float& best, int& index, float v, int tap) {
    index = v > best ? tap : index;
    best = v > best ? v : best;
  }
  static float positive(float v) { return 0.0f > v ? 0.0f : v; }
  static float pass_if_positive(float y, float d) { return y > 0.0f ? d : 0.0f; }
  static float pass_if_tap(int index, int tap, float d) { return index == tap ? d : 0.0f; }
};

std::int64_t clamp(std::int64_t value, std::int64_t low, std::int64_t high) {
  return value < low ? low : value > high ? high : value;
}

// Of one dim: the taps of window `out` that lie in the image, and its first (perhaps outside) pixel.
struct Taps {
  std::int64_t start, begin, end;
};

Taps taps_of(std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t pad, std::int64_t extent) {
  const std::int64_t start = out * stride - pad;
  return {start, clamp(-start, 0, kernel), clamp(extent - start, 0, kernel)};
}

// Of one dim: the windows that cover pixel `in`.
Range windows_of(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t pad, std::int64_t outs) {
  const std::int64_t past_first = in + pad - kernel;
  const std::int64_t begin = past_first < 0 ? 0 : past_first / stride + 1;
  const std::int64_t end = (in + pad) / stride + 1;
  return {begin, end < outs ? end : outs};
}

// body(in_offset, out_offset) for every plane of the samples.
template <class Lane, class Body>
TRIFOLD_INLINE inline void for_each_plane(const PoolGeometry& g, Range samples, Body body) {
  const std::int64_t planes = g.channels / Lane::kWidth;
  const std::int64_t in_plane = g.in_height * g.in_width * Lane::kWidth;
  const std::int64_t out_plane = g.out_height * g.out_width * Lane::kWidth;
  for (std::int64_t plane = samples.begin * planes; plane < samples.end * planes; ++plane) {
    body(plane * in_plane, plane * out_plane);
  }
}

// ---- Max pool, forward ----

template <class Lane>
struct Largest {
  typename Lane::Value value;
  typename Lane::Index index;
};

// The taps [rows] x [columns] of a window whose tap (0, 0) is at `window`.
template <class Lane>
TRIFOLD_INLINE inline Largest<Lane> largest_of(const PoolGeometry& g, const float* window, const Taps& rows,
                                               const Taps& columns) {
  const std::int64_t stride = g.in_width * Lane::kWidth;
  Largest<Lane> best{Lane::load(window + rows.begin * stride + columns.begin * Lane::kWidth), {}};
  best.index += static_cast<int>(rows.begin * g.kernel_width + columns.begin);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    for (std::int64_t s = columns.begin; s < columns.end; ++s) {
      Lane::take_larger(best.value, best.index, Lane::load(window + r * stride + s * Lane::kWidth),
                        static_cast<int>(r * g.kernel_width + s));
    }
  }
  return best;
}

// kKernel > 0: windows inside the image are square of that size and unrolled.
template <class Lane, int kKernel, bool kArgmax>
void max_forward_plane(const MaxPoolForwardArgs& args, const float* x, float* y, std::uint8_t* argmax) {
  const PoolGeometry& g = args.geometry;
  for (std::int64_t oh = 0; oh < g.out_height; ++oh) {
    const Taps rows = taps_of(oh, g.kernel_height, g.stride_height, g.pad_height, g.in_height);
    const bool rows_inside = rows.begin == 0 && rows.end == g.kernel_height;
    for (std::int64_t ow = 0; ow < g.out_width; ++ow) {
      const std::int64_t column = ow * g.stride_width - g.pad_width;
      // `window` may lie outside of the image; only taps inside are read.
      const float* window = x + (rows.start * g.in_width + column) * Lane::kWidth;
      Largest<Lane> best;
      if (kKernel > 0 && rows_inside && column >= 0 && column + kKernel <= g.in_width) {
        const std::int64_t stride = g.in_width * Lane::kWidth;
        if constexpr (Lane::kWidth > 1) {
          // A window reads several short streams, which the hardware does not fetch ahead: ask for the next row's.
          const float* next = window + kKernel * stride;
          __builtin_prefetch(next);
          __builtin_prefetch(next + stride);
        }
        best = Largest<Lane>{Lane::load(window), {}};
#pragma GCC unroll 3
        for (int r = 0; r < kKernel; ++r) {
#pragma GCC unroll 3
          for (int s = 0; s < kKernel; ++s) {
            if (r + s == 0) continue;
            Lane::take_larger(best.value, best.index, Lane::load(window + r * stride + s * Lane::kWidth),
                              r * kKernel + s);
          }
        }
      } else {
        const Taps columns = taps_of(ow, g.kernel_width, g.stride_width, g.pad_width, g.in_width);
        best = largest_of<Lane>(g, window, rows, columns);
      }
      const std::int64_t out = (oh * g.out_width + ow) * Lane::kWidth;
      Lane::store(y + out, args.relu_input ? Lane::positive(best.value) : best.value);
      if constexpr (kArgmax) Lane::store_index(argmax + out, best.index);
    }
  }
}

template <class Lane, int kKernel>
void max_forward_kernel(const MaxPoolForwardArgs& args, Range samples) {
  for_each_plane<Lane>(args.geometry, samples, [&](std::int64_t in, std::int64_t out) {
    if (args.argmax == nullptr)
      return max_forward_plane<Lane, kKernel, false>(args, args.x + in, args.y + out, nullptr);
    max_forward_plane<Lane, kKernel, true>(args, args.x + in, args.y + out, args.argmax + out);
  });
}

template <class Lane>
void max_forward(const MaxPoolForwardArgs& args, Range samples) {
  const PoolGeometry& g = args.geometry;
  if (g.kernel_height == 2 && g.kernel_width == 2) return max_forward_kernel<Lane, 2>(args, samples);
  if (g.kernel_height == 3 && g.kernel_width == 3) return max_forward_kernel<Lane, 3>(args, samples);
  max_forward_kernel<Lane, 0>(args, samples);
}

// ---- Max pool, backward ----

// The gradients of one plane's windows.
template <class Lane>
struct WindowGradients {
  const float* dy;
  const std::uint8_t* argmax;
  const float* y;  // or none

  typename Lane::Value gradient(std::int64_t out) const {
    const typename Lane::Value d = Lane::load(dy + out * Lane::kWidth);
    return y == nullptr ? d : Lane::pass_if_positive(Lane::load(y + out * Lane::kWidth), d);
  }
  typename Lane::Index index(std::int64_t out) const { return Lane::load_index(argmax + out * Lane::kWidth); }
};

template <class Lane>
void max_backward_pixel(const PoolGeometry& g, const WindowGradients<Lane>& windows, std::int64_t ih, std::int64_t iw,
                        float* dx) {
  const Range rows = windows_of(ih, g.kernel_height, g.stride_height, g.pad_height, g.out_height);
  const Range columns = windows_of(iw, g.kernel_width, g.stride_width, g.pad_width, g.out_width);
  typename Lane::Value d{};
  for (std::int64_t oh = rows.begin; oh < rows.end; ++oh) {
    const std::int64_t r = ih + g.pad_height - oh * g.stride_height;
    for (std::int64_t ow = columns.begin; ow < columns.end; ++ow) {
      const std::int64_t s = iw + g.pad_width - ow * g.stride_width, out = oh * g.out_width + ow;
      d += Lane::pass_if_tap(windows.index(out), static_cast<int>(r * g.kernel_width + s), windows.gradient(out));
    }
  }
  Lane::store(dx + (ih * g.in_width + iw) * Lane::kWidth, d);
}

template <class Lane>
void max_backward_plane(const PoolGeometry& g, const WindowGradients<Lane>& windows, float* dx) {
  for (std::int64_t ih = 0; ih < g.in_height; ++ih) {
    for (std::int64_t iw = 0; iw < g.in_width; ++iw) max_backward_pixel(g, windows, ih, iw, dx);
  }
}

// 2x2 windows, stride 2, no padding: each window owns four pixels.
template <class Lane>
void max_backward_plane_2x2(const PoolGeometry& g, const WindowGradients<Lane>& windows, float* dx) {
  const std::int64_t stride = g.in_width * Lane::kWidth;
  for (std::int64_t oh = 0; oh < g.out_height; ++oh) {
    float* row = dx + 2 * oh * stride;
    for (std::int64_t ow = 0; ow < g.out_width; ++ow, row += 2 * Lane::kWidth) {
      const std::int64_t out = oh * g.out_width + ow;
      const auto d = windows.gradient(out);
      const auto index = windows.index(out);
      Lane::store(row, Lane::pass_if_tap(index, 0, d));
      Lane::store(row + Lane::kWidth, Lane::pass_if_tap(index, 1, d));
      Lane::store(row + stride, Lane::pass_if_tap(index, 2, d));
      Lane::store(row + stride + Lane::kWidth, Lane::pass_if_tap(index, 3, d));
    }
    for (std::int64_t iw = 2 * g.out_width; iw < g.in_width; ++iw) {
      max_backward_pixel(g, windows, 2 * oh, iw, dx);
      max_backward_pixel(g, windows, 2 * oh + 1, iw, dx);
    }
  }
  for (std::int64_t ih = 2 * g.out_height; ih < g.in_height; ++ih) {
    for (std::int64_t iw = 0; iw < g.in_width; ++iw) max_backward_pixel(g, windows, ih, iw, dx);
  }
}

// 3x3 windows, stride 2, padding 1: the pixels (2i, 2j) to (2i+1, 2j+1) are covered by the windows (i, j) to
// (i+1, j+1) only, by nine taps in all.
template <class Lane>
void max_backward_plane_3x3(const PoolGeometry& g, const WindowGradients<Lane>& windows, float* dx) {
  const std::int64_t stride = g.in_width * Lane::kWidth;
  const std::int64_t inner_rows = g.out_height - 1, inner_columns = g.out_width - 1;
  for (std::int64_t i = 0; i < inner_rows; ++i) {
    float* row = dx + 2 * i * stride;
    std::int64_t out = i * g.out_width;
    auto d00 = windows.gradient(out), d10 = windows.gradient(out + g.out_width);
    auto index00 = windows.index(out), index10 = windows.index(out + g.out_width);
    for (std::int64_t j = 0; j < inner_columns; ++j, row += 2 * Lane::kWidth) {
      ++out;
      const auto d01 = windows.gradient(out), d11 = windows.gradient(out + g.out_width);
      const auto index01 = windows.index(out), index11 = windows.index(out + g.out_width);
      Lane::store(row, Lane::pass_if_tap(index00, 4, d00));
      Lane::store(row + Lane::kWidth, Lane::pass_if_tap(index00, 5, d00) + Lane::pass_if_tap(index01, 3, d01));
      Lane::store(row + stride, Lane::pass_if_tap(index00, 7, d00) + Lane::pass_if_tap(index10, 1, d10));
      Lane::store(row + stride + Lane::kWidth,
                  (Lane::pass_if_tap(index00, 8, d00) + Lane::pass_if_tap(index01, 6, d01)) +
                      (Lane::pass_if_tap(index10, 2, d10) + Lane::pass_if_tap(index11, 0, d11)));
      d00 = d01;
      d10 = d11;
      index00 = index01;
      index10 = index11;
    }
    for (std::int64_t iw = 2 * inner_columns; iw < g.in_width; ++iw) {
      max_backward_pixel(g, windows, 2 * i, iw, dx);
      max_backward_pixel(g, windows, 2 * i + 1, iw, dx);
    }
  }
  for (std::int64_t ih = 2 * inner_rows; ih < g.in_height; ++ih) {
    for (std::int64_t iw = 0; iw < g.in_width; ++iw) max_backward_pixel(g, windows, ih, iw, dx);
  }
}

bool is_square(const PoolGeometry& g, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  return g.kernel_height == kernel && g.kernel_width == kernel && g.stride_height == stride &&
         g.stride_width == stride && g.pad_height == pad && g.pad_width == pad;
}

template <class Lane>
void max_backward(const MaxPoolBackwardArgs& args, Range samples) {
  const PoolGeometry& g = args.geometry;
  const bool is_2x2 = is_square(g, 2, 2, 0), is_3x3 = is_square(g, 3, 2, 1);
  for_each_plane<Lane>(g, samples, [&](std::int64_t in, std::int64_t out) {
    const WindowGradients<Lane> windows{args.dy + out, args.argmax + out, args.y == nullptr ? nullptr : args.y + out};
    if (is_2x2) return max_backward_plane_2x2(g, windows, args.dx + in);
    if (is_3x3) return max_backward_plane_3x3(g, windows, args.dx + in);
    max_backward_plane(g, windows, args.dx + in);
  });
}

// ---- Average pool ----

// The rows of a window, and its columns, that its sum is divided by.
std::int64_t counted_rows(const PoolGeometry& g, const Taps& rows, const PoolDivisor& by) {
  if (by.count_pad) return clamp(g.in_height + g.pad_height - rows.start, 0, g.kernel_height);
  return clamp(g.in_height - by.pad_below - rows.start, 0, rows.end) -
         clamp(by.pad_above - rows.start, rows.begin, rows.end);
}
std::int64_t counted_columns(const PoolGeometry& g, const Taps& columns, const PoolDivisor& by) {
  return by.count_pad ? clamp(g.in_width + g.pad_width - columns.start, 0, g.kernel_width)
                      : columns.end - columns.begin;
}

template <class Lane>
void avg_forward(const AvgPoolForwardArgs& args, Range samples) {
  const PoolGeometry& g = args.geometry;
  const std::int64_t stride = g.in_width * Lane::kWidth;
  for_each_plane<Lane>(g, samples, [&](std::int64_t in, std::int64_t out) {
    float* y = args.y + out;
    for (std::int64_t oh = 0; oh < g.out_height; ++oh) {
      const Taps rows = taps_of(oh, g.kernel_height, g.stride_height, g.pad_height, g.in_height);
      const std::int64_t row_count = counted_rows(g, rows, args.divisor);
      for (std::int64_t ow = 0; ow < g.out_width; ++ow, y += Lane::kWidth) {
        const Taps columns = taps_of(ow, g.kernel_width, g.stride_width, g.pad_width, g.in_width);
        const std::int64_t count = row_count * counted_columns(g, columns, args.divisor);
        const float* window = args.x + in + (rows.start * g.in_width + columns.start) * Lane::kWidth;
        typename Lane::Value total{};
        for (std::int64_t r = rows.begin; r < rows.end; ++r) {
          for (std::int64_t s = columns.begin; s < columns.end; ++s) {
            total += Lane::load(window + r * stride + s * Lane::kWidth);
          }
        }
        Lane::store(y, total * (1.0f / static_cast<float>(count)));
      }
    }
  });
}

// Scatters: a plane of dx stays in the cache, and the divisor is found once a window.
template <class Lane>
void avg_backward(const AvgPoolBackwardArgs& args, Range samples) {
  const PoolGeometry& g = args.geometry;
  const std::int64_t stride = g.in_width * Lane::kWidth;
  for_each_plane<Lane>(g, samples, [&](std::int64_t in, std::int64_t out) {
    const float* dy = args.dy + out;
    std::memset(args.dx + in, 0, static_cast<std::size_t>(g.in_height * stride) * sizeof(float));
    for (std::int64_t oh = 0; oh < g.out_height; ++oh) {
      const Taps rows = taps_of(oh, g.kernel_height, g.stride_height, g.pad_height, g.in_height);
      const std::int64_t row_count = counted_rows(g, rows, args.divisor);
      for (std::int64_t ow = 0; ow < g.out_width; ++ow, dy += Lane::kWidth) {
        const Taps columns = taps_of(ow, g.kernel_width, g.stride_width, g.pad_width, g.in_width);
        const std::int64_t count = row_count * counted_columns(g, columns, args.divisor);
        float* window = args.dx + in + (rows.start * g.in_width + columns.start) * Lane::kWidth;
        const typename Lane::Value d = Lane::load(dy) * (1.0f / static_cast<float>(count));
        for (std::int64_t r = rows.begin; r < rows.end; ++r) {
          for (std::int64_t s = columns.begin; s < columns.end; ++s) {
            float* pixel = window + r * stride + s * Lane::kWidth;
            Lane::store(pixel, Lane::load(pixel) + d);
          }
        }
      }
    }
  });
}

// ---- Either layout ----

void max_pool_forward(const MaxPoolForwardArgs& args, Range samples) {
  args.geometry.blocked ? max_forward<VectorLane>(args, samples) : max_forward<ScalarLane>(args, samples);
}

void max_pool_backward(const MaxPoolBackwardArgs& args, Range samples) {
  args.geometry.blocked ? max_backward<VectorLane>(args, samples) : max_backward<ScalarLane>(args, samples);
}

void avg_pool_forward(const AvgPoolForwardArgs& args, Range samples) {
  args.geometry.blocked ? avg_forward<VectorLane>(args, samples) : avg_forward<ScalarLane>(args, samples);
}

void avg_pool_backward(const AvgPoolBackwardArgs& args, Range samples) {
  args.geometry.blocked ? avg_backward<VectorLane>(args, samples) : avg_backward<ScalarLane>(args, samples);
}

void global_avg_pool_forward(const GlobalAvgPoolForwardArgs& args, Range samples) {
  const float scale = 1.0f / static_cast<float>(args.whole_pixels);
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const float* sample = args.x + n * sample_elements(args.view);
    float* y = args.y + n * args.view.channels;
    for_each_row(args.view, [&](const Row& row, auto channel) TRIFOLD_INLINE {
      const float* x = sample + row.offset;
      channel.set(y, 0.0f);
      reduce_vectors(
          row.vectors, row.tail,
          [&](std::int64_t i, auto part, Sums& sums) TRIFOLD_INLINE { sums.a += part.load(x + i); },
          [&](const Sums& sums) TRIFOLD_INLINE { channel.add(y, sums.a * scale); });
    });
  }
}

void global_avg_pool_backward(const GlobalAvgPoolBackwardArgs& args, Range samples) {
  const float scale = 1.0f / static_cast<float>(args.whole_pixels);
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const float* dy = args.dy + n * args.view.channels;
    float* sample = args.dx + n * sample_elements(args.view);
    for_each_row(args.view, [&](const Row& row, auto channel) TRIFOLD_INLINE {
      float* dx = sample + row.offset;
      const Vec d = channel(dy) * scale;
      for_each_vector(row.vectors, row.tail, [&](std::int64_t i, auto part) TRIFOLD_INLINE { part.store(dx + i, d); });
    });
  }
}

}  // namespace

const PoolingLoops pooling_loops_table = {max_pool_forward,  max_pool_backward,       avg_pool_forward,
                                          avg_pool_backward, global_avg_pool_forward, global_avg_pool_backward};

}  // namespace trifold::cpu::TRIFOLD_ISA
