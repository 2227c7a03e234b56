// The windows of a pooling op on the device, and what the elements of one come to.
#pragma once

#include <cstdint>

#include "core/error.h"
#include "kernels/cuda/fast_divide.cuh"
#include "kernels/ops/pooling.h"

namespace trifold::cuda {

enum class PoolKind { max, avg };

struct Windows {
  int height, width;          // of x
  int out_height, out_width;  // of y
  int kernel_height, kernel_width;
  int stride_height, stride_width;
  int pad_height, pad_width;
  FastDivisor by_stride_height, by_stride_width;
  bool count_pad;
  int image_begin, image_end;  // rows of x that are no padding

  // The places of a window's rows (or columns) that lie inside the image.
  struct Span {
    int begin, end;  // of the kernel
    int first;       // place in the image of kernel row 0; may be negative
  };
  __device__ __forceinline__ Span rows_of(int p) const {
    const int first = p * stride_height - pad_height;
    return {max(0, -first), min(kernel_height, height - first), first};
  }
  __device__ __forceinline__ Span columns_of(int q) const {
    const int first = q * stride_width - pad_width;
    return {max(0, -first), min(kernel_width, width - first), first};
  }

  // What `count` windows below (or beside) one another read at most, and how many windows at most cover `count` rows
  // (or columns).
  __host__ __device__ int rows_read(int count) const { return (count - 1) * stride_height + kernel_height; }
  __host__ __device__ int columns_read(int count) const { return (count - 1) * stride_width + kernel_width; }
  __host__ __device__ int covering_rows(int count) const { return (count + kernel_height - 2) / stride_height + 1; }
  __host__ __device__ int covering_columns(int count) const { return (count + kernel_width - 2) / stride_width + 1; }

  // The windows that cover image row h (or column w): [first, end).
  __device__ __forceinline__ int first_window_row(int h) const {
    const int beyond = h + pad_height - kernel_height;
    return beyond < 0 ? 0 : static_cast<int>(by_stride_height.divide(static_cast<std::uint32_t>(beyond))) + 1;
  }
  __device__ __forceinline__ int end_window_row(int h) const {
    return min(out_height, static_cast<int>(by_stride_height.divide(static_cast<std::uint32_t>(h + pad_height))) + 1);
  }
  __device__ __forceinline__ int first_window_column(int w) const {
    const int beyond = w + pad_width - kernel_width;
    return beyond < 0 ? 0 : static_cast<int>(by_stride_width.divide(static_cast<std::uint32_t>(beyond))) + 1;
  }
  __device__ __forceinline__ int end_window_column(int w) const {
    return min(out_width, static_cast<int>(by_stride_width.divide(static_cast<std::uint32_t>(w + pad_width))) + 1);
  }

  // What the sum of a window is divided by.
  __device__ __forceinline__ float divisor(const Span& rows, const Span& columns) const {
    if (count_pad) return static_cast<float>(kernel_height * kernel_width);
    const int begin = max(rows.begin, image_begin - rows.first);
    const int end = min(rows.end, image_end - rows.first);
    return static_cast<float>((end - begin) * (columns.end - columns.begin));
  }
};

inline Windows make_windows(const PoolArgs& args, const Shape& x, const Shape& y, const PoolDivisor& divisor = {}) {
  TRIFOLD_CHECK(args.kernel[0] * args.kernel[1] <= 256, "the places of a window of {} x {} do not fit in a byte",
                args.kernel[0], args.kernel[1]);
  return {.height = static_cast<int>(x[2]),
          .width = static_cast<int>(x[3]),
          .out_height = static_cast<int>(y[2]),
          .out_width = static_cast<int>(y[3]),
          .kernel_height = static_cast<int>(args.kernel[0]),
          .kernel_width = static_cast<int>(args.kernel[1]),
          .stride_height = static_cast<int>(args.stride[0]),
          .stride_width = static_cast<int>(args.stride[1]),
          .pad_height = static_cast<int>(args.pad[0]),
          .pad_width = static_cast<int>(args.pad[1]),
          .by_stride_height = FastDivisor(args.stride[0]),
          .by_stride_width = FastDivisor(args.stride[1]),
          .count_pad = divisor.count_pad,
          .image_begin = static_cast<int>(divisor.pad_above),
          .image_end = static_cast<int>(x[2] - divisor.pad_below)};
}

// Shared memory: the least pitch of at least so many elements that leads as many banks on as `apart` elements do. All
// banks together hold `turn` elements.
inline constexpr int kBanks = 32;
inline int bank_pitch(int least, int apart, int turn) {
  return least + ((apart - least) % turn + turn) % turn;
}

// The window's elements so far, for kPack neighbouring channels. Of equal maxima the first counts.
template <PoolKind kKind, int kPack>
struct WindowResult {
  float value[kPack] = {};
  std::uint8_t place[kPack] = {};  // of a maximum
  bool empty = true;

  __device__ __forceinline__ void add(const float (&x)[kPack], int at) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      if constexpr (kKind == PoolKind::avg) {
        value[k] += x[k];
      } else if (empty || x[k] > value[k]) {
        value[k] = x[k];
        place[k] = static_cast<std::uint8_t>(at);
      }
    }
    empty = false;
  }
};

}  // namespace trifold::cuda
