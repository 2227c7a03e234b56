// Element-wise functions, pooling, dropout, the ops that add, join, cut and re-lay tensors, and images from raw bytes.
#include <fmt/format.h>

#include "kernels/ops/activation.h"
#include "kernels/ops/conv2d.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/pooling.h"
#include "kernels/ops/prepare_images.h"
#include "kernels/ops/shape_ops.h"
#include "support/op_case_builder.h"

namespace trifold::test {
namespace {

OpCase activation_case(Activation function, const Shape& shape, Draw draw) {
  OpCaseBuilder b(
      fmt::format("activation_{}_{}{}", name_of(function), to_string(shape), draw == Draw::wide ? "_wide" : ""));
  ActivationForward forward;
  forward.function = function;
  forward.parameters = default_parameters(function);
  ActivationBackward backward;
  backward.function = function;
  backward.parameters = default_parameters(function);
  const int x = b.activation("x", shape, draw);
  const int dy = b.activation("dy", shape);
  const int y = b.made("y", shape);
  const int dx = b.made("dx", shape);
  b.step(forward, {x}, {y});
  b.step(backward, {dy, traits_of(function).gradient_from == GradientFrom::output ? y : x}, {dx});
  if (draw == Draw::spaced) b.objective(y, dy).gradient(x, dx);
  return b.build();
}

Shape pooled(const Shape& x, const PoolArgs& args) {
  Shape y{x[0], x[1]};
  for (std::size_t d = 0; d < 2; ++d)
    y.push_back(conv_out_extent(x[2 + static_cast<int>(d)], args.kernel[d], args.stride[d], args.pad[d], 1));
  return y;
}

OpCase max_pool_case(const std::string& name, const Shape& shape, const PoolArgs& args, Draw draw) {
  OpCaseBuilder b("max_pool_" + name);
  MaxPoolForward forward;
  forward.args = args;
  MaxPoolForward evaluation = forward;
  evaluation.keep_argmax = false;
  MaxPoolBackward backward;
  backward.args = args;
  const Shape y_shape = pooled(shape, args);
  const int x = b.activation("x", shape, draw);
  const int dy = b.activation("dy", y_shape);
  const int y = b.made("y", y_shape);
  const int argmax = b.made("argmax", y_shape, DType::u8);
  const int dx = b.made("dx", shape);
  b.step(forward, {x}, {y, argmax});
  b.step(evaluation, {x}, {b.made("y_evaluation", y_shape)});
  b.step(backward, {dy, argmax}, {dx});
  if (draw == Draw::spaced) b.objective(y, dy).gradient(x, dx);
  return b.build();
}

// relu, then max_pool; the pool's gradient undoes both. Windows that the relu emptied have ties at zero.
OpCase relu_max_pool_case(const std::string& name, const Shape& shape, const PoolArgs& args) {
  OpCaseBuilder b("max_pool_relu_" + name);
  MaxPoolForward forward;
  forward.args = args;
  MaxPoolBackward backward;
  backward.args = args;
  backward.relu = true;
  const Shape y_shape = pooled(shape, args);
  const int x = b.activation("x", shape, Draw::spaced);
  const int dy = b.activation("dy", y_shape);
  const int rectified = b.made("rectified", shape);
  const int y = b.made("y", y_shape);
  const int argmax = b.made("argmax", y_shape, DType::u8);
  const int dx = b.made("dx", shape);
  b.step(ActivationForward(), {x}, {rectified});
  b.step(forward, {rectified}, {y, argmax});
  b.step(backward, {dy, argmax, y}, {dx}).objective(y, dy).gradient(x, dx);
  return b.build();
}

OpCase avg_pool_case(const std::string& name, const Shape& shape, const PoolArgs& args, const PoolDivisor& divisor) {
  OpCaseBuilder b(fmt::format("avg_pool_{}{}", name, divisor.count_pad ? "" : "_inside"));
  AvgPoolForward forward;
  forward.args = args;
  forward.divisor = divisor;
  AvgPoolBackward backward;
  backward.args = args;
  backward.divisor = divisor;
  const Shape y_shape = pooled(shape, args);
  const int x = b.activation("x", shape);
  const int dy = b.activation("dy", y_shape);
  const int y = b.made("y", y_shape);
  const int dx = b.made("dx", shape);
  b.step(forward, {x}, {y}).step(backward, {dy}, {dx}).objective(y, dy).gradient(x, dx);
  return b.build();
}

// `pixels`: of an image that x has some rows of; 0: it has them all.
OpCase global_avg_pool_case(const Shape& shape, std::int64_t pixels = 0) {
  OpCaseBuilder b(fmt::format("global_avg_pool_{}{}", to_string(shape), pixels > 0 ? "_part" : ""));
  GlobalAvgPoolForward forward;
  forward.pixels = pixels;
  GlobalAvgPoolBackward backward;
  backward.pixels = pixels;
  const int x = b.activation("x", shape);
  const int dy = b.activation("dy", {shape[0], shape[1]});
  const int y = b.made("y", {shape[0], shape[1]});
  const int dx = b.made("dx", shape);
  b.step(forward, {x}, {y});
  b.step(backward, {dy}, {dx}).objective(y, dy).gradient(x, dx);
  return b.build();
}

OpCase dropout_case(const std::string& name, const Shape& shape, const DropoutArgs& args, bool relu) {
  OpCaseBuilder b(fmt::format("dropout{}_{}{}", args.channels ? "2d" : "", name, relu ? "_relu" : ""));
  DropoutForward forward;
  forward.args = args;
  forward.relu = relu;
  DropoutBackward backward;
  backward.args = forward.args;
  backward.relu = relu;
  const int x = b.activation("x", shape, Draw::spaced);
  const int dy = b.activation("dy", shape);
  const int y = b.made("y", shape);
  const int dx = b.made("dx", shape);
  b.step(forward, {x}, {y});
  b.step(backward, relu ? std::vector<int>{dy, y} : std::vector<int>{dy}, {dx}).objective(y, dy).gradient(x, dx);
  return b.build();
}

OpCase dropout_case(const Shape& shape, double probability, bool channels, bool relu) {
  return dropout_case(fmt::format("{}_p{}", to_string(shape), static_cast<int>(100 * probability)), shape,
                      {.probability = probability, .channels = channels, .layer = 5}, relu);
}

// What tensor ranks have: some of the channels, some of the rows, and beginnings within a block of four numbers.
void add_dropout_part_cases(std::vector<OpCase>& cases) {
  for (const bool channels : {false, true}) {
    cases.push_back(dropout_case("part_channels", {2, 16, 4, 3},
                                 {.channels = channels, .layer = 5, .first_channel = 16, .whole_channels = 48}, false));
    cases.push_back(dropout_case("part_odd_channels", {2, 7, 3, 5},
                                 {.channels = channels, .layer = 5, .first_channel = 7, .whole_channels = 14}, true));
    cases.push_back(
        dropout_case("part_rows", {2, 16, 3, 5}, {.channels = channels, .layer = 5, .first_pixel = 15}, true));
  }
  cases.push_back(
      dropout_case("part_features", {3, 37}, {.layer = 5, .first_channel = 37, .whole_channels = 74}, false));
}

OpCase add_case(const Shape& shape) {
  OpCaseBuilder b(fmt::format("add_{}", to_string(shape)));
  const int left = b.activation("left", shape);
  const int right = b.activation("right", shape);
  Add with_relu;
  with_relu.relu = true;
  b.step(Add(), {left, right}, {b.made("sum", shape)});
  b.step(with_relu, {left, right}, {b.made("sum_relu", shape)});
  return b.build();
}

// Concat of parts with these channels; the gradient of part `left_out` (-1: none) is not asked for.
OpCase concat_case(const std::string& name, Shape shape, const std::vector<std::int64_t>& channels, int left_out = -1) {
  OpCaseBuilder b("concat_" + name);
  SplitChannels split;
  std::vector<int> parts;
  std::vector<int> gradients;
  std::int64_t whole = 0;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    shape[1] = channels[i];
    parts.push_back(b.activation(fmt::format("part{}", i), shape));
    if (static_cast<int>(i) != left_out) {
      split.first_channel.push_back(whole);
      gradients.push_back(b.made(fmt::format("d_part{}", i), shape));
      b.gradient(parts.back(), gradients.back());
    }
    whole += channels[i];
  }
  shape[1] = whole;
  const int dy = b.activation("dy", shape);
  const int y = b.made("y", shape);
  b.step(Concat(), parts, {y}).step(split, {dy}, gradients).objective(y, dy);
  return b.build();
}

OpCase reorder_case(const std::string& name, const Shape& shape, const Layout& layout, DType dtype = DType::f32) {
  OpCaseBuilder b(fmt::format("reorder_{}_{}", name, layout.block));
  const int plain = b.with_layout("plain", {shape, dtype}, dtype == DType::u8 ? Draw::bytes : Draw::normal);
  const int there = b.with_layout("there", {shape, dtype, layout}, Draw::made);
  const int back = b.with_layout("back", {shape, dtype}, Draw::made);
  b.step(Reorder(), {plain}, {there}).step(Reorder(), {there}, {back});
  return b.build();
}

OpCase prepare_case(const std::string& name, const Shape& shape, const std::vector<Augmentation>& augmentations) {
  OpCaseBuilder b("prepare_images_" + name);
  PrepareImages op;
  for (std::int64_t c = 0; c < shape[1]; ++c) {
    op.args.mean.push_back(0.3f + 0.01f * static_cast<float>(c));
    op.args.deviation.push_back(0.2f + 0.02f * static_cast<float>(c));
  }
  op.args.augmentations = augmentations;
  b.step(op, {b.raw_images(shape)}, {b.made("images", shape)});
  return b.build();
}

void add_image_cases(std::vector<OpCase>& cases) {
  for (const Activation function : kActivations) {
    cases.push_back(activation_case(function, {3, 7, 5, 3}, Draw::spaced));
    cases.push_back(activation_case(function, {2, 16, 4, 4}, Draw::normal));
    cases.push_back(activation_case(function, {1, 37}, Draw::wide));
  }

  const PoolArgs halves{};
  const PoolArgs overlapping{.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}};
  const PoolArgs dense{.kernel = {2, 2}, .stride = {1, 1}};
  const PoolArgs uneven{.kernel = {3, 2}, .stride = {2, 3}, .pad = {1, 0}};
  cases.push_back(max_pool_case("halves", {2, 3, 6, 6}, halves, Draw::spaced));
  cases.push_back(max_pool_case("halves_odd", {2, 8, 7, 5}, halves, Draw::spaced));
  cases.push_back(max_pool_case("overlapping", {2, 16, 7, 9}, overlapping, Draw::spaced));
  cases.push_back(max_pool_case("dense", {1, 5, 6, 4}, dense, Draw::spaced));
  cases.push_back(max_pool_case("uneven", {2, 10, 7, 8}, uneven, Draw::spaced));
  cases.push_back(max_pool_case("ties", {2, 16, 8, 8}, overlapping, Draw::few));
  cases.push_back(max_pool_case("ties_plain", {2, 3, 8, 8}, halves, Draw::few));
  cases.push_back(max_pool_case("many_channels", {1, 72, 9, 9}, overlapping, Draw::normal));
  cases.push_back(max_pool_case("large", {1, 8, 70, 75}, overlapping, Draw::normal));
  cases.push_back(max_pool_case("wide", {1, 2, 3, 10400}, overlapping, Draw::normal));
  cases.push_back(relu_max_pool_case("halves", {2, 16, 6, 6}, halves));
  cases.push_back(relu_max_pool_case("overlapping", {2, 5, 7, 7}, overlapping));
  for (const bool count_pad : {true, false}) {
    cases.push_back(avg_pool_case("halves", {2, 16, 6, 6}, halves, {count_pad}));
    cases.push_back(avg_pool_case("overlapping", {2, 8, 7, 9}, overlapping, {count_pad}));
    cases.push_back(avg_pool_case("uneven", {1, 5, 7, 8}, uneven, {count_pad}));
    cases.push_back(avg_pool_case("dense", {3, 3, 5, 4}, dense, {count_pad}));
  }
  // What tensor ranks have: the first rows of the image, the last, rows between, and all of them.
  const PoolArgs of_rows{.kernel = {3, 3}, .stride = {2, 2}, .pad = {0, 1}};
  for (const auto& [above, below] : {std::pair{1, 0}, std::pair{0, 1}, std::pair{0, 0}, std::pair{1, 1}})
    for (const std::int64_t channels : {5, 16})
      cases.push_back(avg_pool_case(fmt::format("rows_{}_{}_{}", channels, above, below), {2, channels, 7, 9}, of_rows,
                                    {.count_pad = false, .pad_above = above, .pad_below = below}));
  for (const Shape& shape : {Shape{2, 16, 7, 7}, Shape{3, 5, 4, 3}, Shape{1, 32, 1, 1}, Shape{1, 2, 50, 50}})
    cases.push_back(global_avg_pool_case(shape));
  cases.push_back(global_avg_pool_case({2, 16, 3, 7}, 49));
  cases.push_back(global_avg_pool_case({2, 5, 1, 4}, 12));

  for (const bool relu : {false, true}) {
    cases.push_back(dropout_case({3, 7, 5, 3}, 0.3, false, relu));
    cases.push_back(dropout_case({2, 16, 4, 4}, 0.5, false, relu));
    cases.push_back(dropout_case({5, 37}, 0.25, false, relu));
    cases.push_back(dropout_case({4, 16, 3, 3}, 0.5, true, relu));
    cases.push_back(dropout_case({5, 6, 2, 5}, 0.4, true, relu));
  }
  cases.push_back(dropout_case({2, 8, 3, 3}, 0.0, false, false));
  add_dropout_part_cases(cases);

  for (const Shape& shape : {Shape{2, 16, 5, 5}, Shape{3, 7, 3, 5}, Shape{1, 33}}) cases.push_back(add_case(shape));

  cases.push_back(concat_case("ragged", {2, 0, 4, 3}, {3, 5}));
  cases.push_back(concat_case("blocks", {2, 0, 3, 3}, {16, 32}));
  cases.push_back(concat_case("blocks_and_rest", {2, 0, 3, 3}, {16, 8, 4}));
  cases.push_back(concat_case("three_without_middle", {2, 0, 2, 2}, {16, 16, 32}, 1));
  cases.push_back(concat_case("without_first", {2, 0, 5, 2}, {3, 4, 1}, 0));
  cases.push_back(concat_case("features", {4, 0}, {6, 11}));

  for (const int block : {8, 16}) {
    cases.push_back(reorder_case("image", {2, 32, 5, 3}, {Order::channel_block, block}));
    cases.push_back(reorder_case("argmax", {2, 32, 5, 3}, {Order::channel_block, block}, DType::u8));
    cases.push_back(reorder_case("weights", {32, 16, 3, 3}, {Order::conv_block, block}));
    cases.push_back(reorder_case("first_weights", {16, 3, 3, 3}, {Order::conv_first, block}));
    cases.push_back(reorder_case("depthwise_weights", {32, 1, 3, 3}, {Order::conv_depthwise, block}));
    cases.push_back(reorder_case("columns", {10, 16 * 9}, {Order::column_block, block, 9}));
  }

  cases.push_back(prepare_case("normalised", {3, 3, 5, 7}, {}));
  cases.push_back(prepare_case("cropped", {4, 3, 8, 8}, {RandomCrop{2}}));
  cases.push_back(prepare_case("flipped", {5, 1, 6, 9}, {HorizontalFlip{0.5f}}));
  cases.push_back(prepare_case("cut", {4, 3, 7, 6}, {Cutout{3}}));
  cases.push_back(prepare_case("all", {6, 3, 20, 21}, {RandomCrop{4}, HorizontalFlip{0.5f}, Cutout{8}}));
  cases.push_back(prepare_case("as_many_as_may_be", {2, 2, 9, 9},
                               {Cutout{2}, RandomCrop{1}, HorizontalFlip{1.0f}, RandomCrop{9}, HorizontalFlip{0.0f},
                                Cutout{9}, RandomCrop{2}, Cutout{1}}));
  for (const std::vector<Augmentation>& list : {std::vector<Augmentation>{}, std::vector<Augmentation>{RandomCrop{1}}})
    cases.push_back(prepare_case(list.empty() ? "many_channels" : "many_channels_cropped", {2, 70, 3, 3}, list));
}

const RegisterOpCases register_image_cases(add_image_cases);

}  // namespace
}  // namespace trifold::test
