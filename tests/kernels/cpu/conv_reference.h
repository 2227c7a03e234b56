// A convolution and its gradients by plain double loops over row-major tensors: what the tests of convolutions compare
// with. Also memory with guards around it, to run a kernel on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/tensor.h"
#include "kernels/ops/conv2d.h"

namespace trifold::test {

struct ConvCase {
  std::int64_t batch = 2;
  std::int64_t in = 8;
  Pair image = {7, 9};
  std::int64_t out = 8;
  Pair kernel = {3, 3};
  Conv2dArgs args = {};

  Shape x() const { return {batch, in, image[0], image[1]}; }
  Shape w() const { return {out, in / args.groups, kernel[0], kernel[1]}; }
  Shape y() const { return {batch, out, extent(0), extent(1)}; }
  std::int64_t extent(std::size_t dim) const {
    return conv_out_extent(image[dim], kernel[dim], args.stride[dim], args.pad[dim], args.dilation[dim]);
  }
  std::string text() const { return to_string(x()) + " * " + to_string(w()) + " " + args.text(); }
};

using Values = std::vector<float>;

inline Values random_values(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1.f, 1.f);
  Values values(static_cast<std::size_t>(count));
  for (float& value : values) value = distribution(generator);
  return values;
}

// Row-major tensors of one convolution. y includes bias and relu; dx, dw and dbias are the gradients for dy.
struct ConvReference {
  Values x, w, bias, dy, y, dx, dw, dbias;

  ConvReference(const ConvCase& c, bool with_bias, bool relu)
      : x(random_values(c.x().elements(), 1)),
        w(random_values(c.w().elements(), 2)),
        bias(random_values(c.out, 3)),
        dy(random_values(c.y().elements(), 4)) {
    std::vector<double> y_sum(dy.size()), dx_sum(x.size()), dw_sum(w.size()), dbias_sum(bias.size());
    const std::int64_t out_per_group = c.out / c.args.groups;
    const std::int64_t in_per_group = c.in / c.args.groups;
    const Shape y_shape = c.y();
    std::size_t at_y = 0;
    for (std::int64_t n = 0; n < c.batch; ++n)
      for (std::int64_t o = 0; o < c.out; ++o)
        for (std::int64_t p = 0; p < y_shape[2]; ++p)
          for (std::int64_t q = 0; q < y_shape[3]; ++q, ++at_y) {
            y_sum[at_y] = with_bias ? bias[index(o)] : 0.f;
            dbias_sum[index(o)] += dy[at_y];
            for (std::int64_t i = 0; i < in_per_group; ++i)
              for (std::int64_t r = 0; r < c.kernel[0]; ++r)
                for (std::int64_t s = 0; s < c.kernel[1]; ++s) {
                  const std::int64_t row = p * c.args.stride[0] - c.args.pad[0] + r * c.args.dilation[0];
                  const std::int64_t column = q * c.args.stride[1] - c.args.pad[1] + s * c.args.dilation[1];
                  if (row < 0 || row >= c.image[0] || column < 0 || column >= c.image[1]) continue;
                  const std::int64_t channel = o / out_per_group * in_per_group + i;
                  const std::size_t at_x = index(((n * c.in + channel) * c.image[0] + row) * c.image[1] + column);
                  const std::size_t at_w = index(((o * in_per_group + i) * c.kernel[0] + r) * c.kernel[1] + s);
                  y_sum[at_y] += double{x[at_x]} * w[at_w];
                  dx_sum[at_x] += double{dy[at_y]} * w[at_w];
                  dw_sum[at_w] += double{dy[at_y]} * x[at_x];
                }
            if (relu) y_sum[at_y] = std::max(0.0, y_sum[at_y]);
          }
    y.assign(y_sum.begin(), y_sum.end());
    dx.assign(dx_sum.begin(), dx_sum.end());
    dw.assign(dw_sum.begin(), dw_sum.end());
    dbias.assign(dbias_sum.begin(), dbias_sum.end());
  }

 private:
  static std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }
};

// 64-byte aligned, full of NaNs (all bits set), with a guard behind it.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t bytes) : bytes_(bytes), memory_(new (kAlignment) std::byte[bytes + kGuard]) {
    spoil();
  }
  // A tensor in its layout, from row-major values.
  GuardedMemory(const TensorDesc& desc, const Values& plain) : GuardedMemory(desc.bytes()) {
    to_layout(plain, desc.shape, desc.layout, {floats(), plain.size()});
  }

  std::byte* data() const { return memory_.get(); }
  float* floats() const { return reinterpret_cast<float*>(memory_.get()); }
  void spoil() { std::memset(memory_.get(), 0xff, bytes_ + kGuard); }
  bool guard_intact() const {
    return std::all_of(memory_.get() + bytes_, memory_.get() + bytes_ + kGuard,
                       [](std::byte value) { return value == std::byte{0xff}; });
  }
  Values plain(const TensorDesc& desc) const {
    Values values(static_cast<std::size_t>(desc.elements()));
    to_plain({floats(), values.size()}, desc.shape, desc.layout, values);
    return values;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  static constexpr std::size_t kGuard = 256;
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte[], Free> memory_;
};

// Largest difference, as a part of the largest expected value; infinite where a value is not a number.
inline double relative_error(const Values& actual, const Values& expected) {
  double largest = 1e-30;
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(double{expected[i]}));
    const double difference = std::abs(double{actual[i]} - expected[i]);
    if (std::isnan(difference)) return INFINITY;
    error = std::max(error, difference);
  }
  return error / largest;
}

}  // namespace trifold::test
