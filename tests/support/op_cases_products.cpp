// Convolutions and fully connected layers: forward, forward with relu, and both gradients of the plain forward.
#include <fmt/format.h>

#include "kernels/ops/conv2d.h"
#include "kernels/ops/linear.h"
#include "support/op_case_builder.h"

namespace trifold::test {
namespace {

struct ConvCase {
  std::string name;
  Shape x;
  std::int64_t out_channels = 1;
  Pair kernel = {3, 3};
  Conv2dArgs args = {};
  bool bias = false;
};

OpCase conv_case(const ConvCase& c) {
  OpCaseBuilder b("conv2d_" + c.name);
  Shape y{c.x[0], c.out_channels};
  for (std::size_t d = 0; d < 2; ++d)
    y.push_back(conv_out_extent(c.x[2 + static_cast<int>(d)], c.kernel[d], c.args.stride[d], c.args.pad[d],
                                c.args.dilation[d]));
  const Shape w{c.out_channels, c.x[1] / c.args.groups, c.kernel[0], c.kernel[1]};
  Conv2dForward forward;
  forward.args = c.args;
  forward.bias = c.bias;
  Conv2dForward with_relu = forward;
  with_relu.relu = true;
  Conv2dBackwardData data;
  data.args = c.args;
  Conv2dBackwardWeights weights;
  weights.args = c.args;
  weights.bias = c.bias;

  const int x_in = b.activation("x", c.x);
  const int w_in = b.parameter("w", w);
  std::vector<int> in = {x_in, w_in};
  if (c.bias) in.push_back(b.parameter("bias", {c.out_channels}));
  const int dy = b.activation("dy", y);
  const int y_out = b.made("y", y);
  const int dx = b.made("dx", c.x);
  const int dw = b.made("dw", w);
  b.step(forward, in, {y_out}).objective(y_out, dy);
  b.step(with_relu, in, {b.made("y_relu", y)});
  b.step(data, {dy, w_in}, {dx}).gradient(x_in, dx).gradient(w_in, dw);
  if (c.bias) {
    const int dbias = b.made("dbias", {c.out_channels});
    b.step(weights, {x_in, dy}, {dw, dbias}).gradient(in[2], dbias);
  } else {
    b.step(weights, {x_in, dy}, {dw});
  }
  return b.build();
}

struct LinearCase {
  std::int64_t rows, in_features, out_features;
  bool bias = false;
  std::int64_t pixels = 1;
};

OpCase linear_case(const LinearCase& c) {
  OpCaseBuilder b(fmt::format("linear_{}x{}x{}{}{}", c.rows, c.in_features, c.out_features, c.bias ? "_bias" : "",
                              c.pixels > 1 ? "_flattened" : ""));
  LinearForward forward;
  forward.bias = c.bias;
  LinearForward with_relu = forward;
  with_relu.relu = true;
  LinearBackwardWeights weights;
  weights.bias = c.bias;

  const Shape y{c.rows, c.out_features};
  const int x = b.activation("x", {c.rows, c.in_features}, Draw::normal, c.pixels);
  const int w = b.parameter("w", {c.out_features, c.in_features});
  std::vector<int> in = {x, w};
  if (c.bias) in.push_back(b.parameter("bias", {c.out_features}));
  const int dy = b.activation("dy", y);
  const int y_out = b.made("y", y);
  const int dx = b.made("dx", {c.rows, c.in_features});
  const int dw = b.made("dw", {c.out_features, c.in_features});
  b.step(forward, in, {y_out}).objective(y_out, dy);
  b.step(with_relu, in, {b.made("y_relu", y)});
  b.step(LinearBackwardData(), {dy, w}, {dx}).gradient(x, dx).gradient(w, dw);
  if (c.bias) {
    const int dbias = b.made("dbias", {c.out_features});
    b.step(weights, {x, dy}, {dw, dbias}).gradient(in[2], dbias);
  } else {
    b.step(weights, {x, dy}, {dw});
  }
  return b.build();
}

void add_product_cases(std::vector<OpCase>& cases) {
  const ConvCase convs[] = {
      {"small_odd", {2, 3, 7, 5}, 4, {3, 3}, {.pad = {1, 1}}, true},
      {"no_pad", {2, 5, 6, 7}, 3, {3, 3}, {}},
      {"first_layer", {2, 3, 9, 9}, 16, {3, 3}, {.pad = {1, 1}}, true},
      {"gray_first_layer", {3, 1, 12, 12}, 32, {5, 5}, {}, true},
      {"stem_7x7", {2, 3, 17, 15}, 16, {7, 7}, {.stride = {2, 2}, .pad = {3, 3}}},
      {"one_by_one", {3, 16, 5, 5}, 32, {1, 1}, {}},
      {"one_by_one_bias", {2, 32, 7, 7}, 16, {1, 1}, {}, true},
      {"one_by_one_stride2", {2, 16, 7, 6}, 32, {1, 1}, {.stride = {2, 2}}},
      {"block_16", {2, 16, 8, 8}, 16, {3, 3}, {.pad = {1, 1}}},
      {"block_64", {2, 32, 6, 6}, 64, {3, 3}, {.pad = {1, 1}}, true},
      {"block_8_odd", {2, 8, 7, 9}, 24, {3, 3}, {.pad = {1, 1}}},
      {"wide_image", {1, 32, 14, 14}, 32, {3, 3}, {.pad = {1, 1}}},
      {"stride2", {2, 16, 9, 9}, 16, {3, 3}, {.stride = {2, 2}, .pad = {1, 1}}},
      {"stride2_even", {2, 16, 8, 10}, 32, {3, 3}, {.stride = {2, 2}, .pad = {1, 1}}, true},
      {"dilation", {2, 8, 9, 9}, 8, {3, 3}, {.pad = {2, 2}, .dilation = {2, 2}}},
      {"dilation_uneven", {1, 6, 9, 8}, 5, {3, 2}, {.stride = {1, 2}, .pad = {2, 0}, .dilation = {2, 3}}, true},
      {"groups_2", {2, 8, 6, 6}, 12, {3, 3}, {.pad = {1, 1}, .groups = 2}, true},
      {"groups_4_block", {2, 32, 7, 7}, 32, {3, 3}, {.pad = {1, 1}, .groups = 4}},
      {"depthwise", {2, 16, 7, 7}, 16, {3, 3}, {.pad = {1, 1}, .groups = 16}},
      {"depthwise_odd", {2, 5, 6, 7}, 5, {3, 3}, {.pad = {1, 1}, .groups = 5}, true},
      {"depthwise_stride2", {2, 16, 8, 8}, 16, {3, 3}, {.stride = {2, 2}, .pad = {1, 1}, .groups = 16}},
      {"depthwise_multiplier", {2, 8, 5, 5}, 16, {3, 3}, {.pad = {1, 1}, .groups = 8}},
      {"batch_1_uneven", {1, 5, 6, 8}, 7, {3, 1}, {.stride = {2, 1}, .pad = {1, 0}}},
      {"ragged_channels", {3, 10, 6, 6}, 14, {3, 3}, {.pad = {1, 1}}, true},
      {"kernel_5", {2, 16, 7, 7}, 8, {5, 5}, {.pad = {2, 2}}, true},
      {"whole_image", {2, 16, 4, 4}, 10, {4, 4}, {}},
      {"one_pixel", {4, 16, 1, 1}, 16, {3, 3}, {.pad = {1, 1}}},
      {"narrower_than_stride", {4, 16, 8, 1}, 16, {5, 3}, {.stride = {3, 3}, .pad = {2, 2}}, true},
      {"pixel_smaller_than_stride", {2, 32, 1, 1}, 16, {3, 3}, {.stride = {2, 2}, .pad = {1, 1}}},
  };
  for (const ConvCase& c : convs) cases.push_back(conv_case(c));
  const LinearCase linears[] = {{4, 7, 5, true},      {1, 16, 10},     {32, 64, 48, true},    {3, 33, 17},
                                {64, 128, 100, true}, {1, 1, 1, true}, {4, 144, 10, true, 9}, {5, 128, 16, false, 4}};
  for (const LinearCase& c : linears) cases.push_back(linear_case(c));
}

const RegisterOpCases register_product_cases(add_product_cases);

}  // namespace
}  // namespace trifold::test
