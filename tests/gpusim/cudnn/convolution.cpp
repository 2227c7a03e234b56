#include "cudnn/convolution.h"

#include <algorithm>

#include "cublas/float_gemm.h"

namespace gpusim {
namespace {

std::size_t size(int value) {
  return static_cast<std::size_t>(value);
}

// Sizes of one image and group.
struct Sizes {
  explicit Sizes(const ConvolutionShape& shape)
      : images(size(shape.n)),
        groups(size(shape.groups)),
        input(size(shape.c / shape.groups) * size(shape.h) * size(shape.w)),
        filters(size(shape.k / shape.groups)),
        taps(size(shape.c / shape.groups) * size(shape.r) * size(shape.s)),
        pixels(size(shape.p) * size(shape.q)) {}
  std::size_t images;
  std::size_t groups;
  std::size_t input;
  std::size_t filters;
  std::size_t taps;
  std::size_t pixels;
};

// Calls visit(input row pointer offset, column row offset, first and last q inside, input column of q = 0) for every
// tap and output row; rows above and below the image are given with an empty range.
template <class Visit>
void for_each_row(const ConvolutionShape& shape, const Visit& visit) {
  std::size_t column = 0;
  for (int c = 0; c < shape.c / shape.groups; ++c) {
    for (int r = 0; r < shape.r; ++r) {
      for (int s = 0; s < shape.s; ++s) {
        const int left = s * shape.dilation_w - shape.pad_w;  // input column of q = 0
        int first = left < 0 ? (-left + shape.stride_w - 1) / shape.stride_w : 0;
        int last = shape.w - left > 0 ? std::min(shape.q, (shape.w - left + shape.stride_w - 1) / shape.stride_w) : 0;
        first = std::min(first, shape.q);
        last = std::max(last, first);
        for (int p = 0; p < shape.p; ++p, column += size(shape.q)) {
          const int row = p * shape.stride_h + r * shape.dilation_h - shape.pad_h;
          const bool inside = row >= 0 && row < shape.h;
          const std::size_t input = inside ? (size(c) * size(shape.h) + size(row)) * size(shape.w) : 0;
          visit(input, column, inside ? first : 0, inside ? last : 0, left);
        }
      }
    }
  }
}

// columns [C / groups * R * S, P * Q]
void unfold(const ConvolutionShape& shape, const float* image, std::vector<float>& columns) {
  for_each_row(shape, [&](std::size_t input, std::size_t column, int first, int last, int left) {
    float* to = columns.data() + column;
    std::fill(to, to + first, 0.0F);
    for (int q = first; q < last; ++q) to[q] = image[input + size(left + q * shape.stride_w)];
    std::fill(to + last, to + shape.q, 0.0F);
  });
}

void fold(const ConvolutionShape& shape, const std::vector<float>& columns, float* image) {
  for_each_row(shape, [&](std::size_t input, std::size_t column, int first, int last, int left) {
    const float* from = columns.data() + column;
    for (int q = first; q < last; ++q) image[input + size(left + q * shape.stride_w)] += from[q];
  });
}

}  // namespace

double ConvolutionShape::flops() const {
  return 2.0 * n * k * p * q * (static_cast<double>(c) / groups) * r * s;
}

std::vector<float> convolve(const ConvolutionShape& shape, const std::vector<float>& x, const std::vector<float>& w) {
  const Sizes sizes(shape);
  std::vector<float> y(sizes.images * sizes.groups * sizes.filters * sizes.pixels);
  std::vector<float> columns(sizes.taps * sizes.pixels);
  for (std::size_t at = 0; at < sizes.images * sizes.groups; ++at) {
    const std::size_t group = at % sizes.groups;
    unfold(shape, x.data() + at * sizes.input, columns);
    accumulate_product({sizes.filters, sizes.pixels, sizes.taps},
                       {w.data() + group * sizes.filters * sizes.taps, sizes.taps, 1},
                       {columns.data(), sizes.pixels, 1}, y.data() + at * sizes.filters * sizes.pixels);
  }
  return y;
}

std::vector<float> input_gradient(const ConvolutionShape& shape, const std::vector<float>& w,
                                  const std::vector<float>& dy) {
  const Sizes sizes(shape);
  std::vector<float> dx(sizes.images * sizes.groups * sizes.input);
  std::vector<float> columns(sizes.taps * sizes.pixels);
  for (std::size_t at = 0; at < sizes.images * sizes.groups; ++at) {
    const std::size_t group = at % sizes.groups;
    std::fill(columns.begin(), columns.end(), 0.0F);
    accumulate_product({sizes.taps, sizes.pixels, sizes.filters},
                       {w.data() + group * sizes.filters * sizes.taps, 1, sizes.taps},
                       {dy.data() + at * sizes.filters * sizes.pixels, sizes.pixels, 1}, columns.data());
    fold(shape, columns, dx.data() + at * sizes.input);
  }
  return dx;
}

std::vector<float> filter_gradient(const ConvolutionShape& shape, const std::vector<float>& x,
                                   const std::vector<float>& dy) {
  const Sizes sizes(shape);
  std::vector<float> dw(sizes.groups * sizes.filters * sizes.taps);
  std::vector<float> columns(sizes.taps * sizes.pixels);
  for (std::size_t at = 0; at < sizes.images * sizes.groups; ++at) {
    const std::size_t group = at % sizes.groups;
    unfold(shape, x.data() + at * sizes.input, columns);
    accumulate_product({sizes.filters, sizes.taps, sizes.pixels},
                       {dy.data() + at * sizes.filters * sizes.pixels, sizes.pixels, 1},
                       {columns.data(), 1, sizes.pixels}, dw.data() + group * sizes.filters * sizes.taps);
  }
  return dw;
}

}  // namespace gpusim
