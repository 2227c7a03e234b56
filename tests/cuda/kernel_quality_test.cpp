// How good the kernels are, by figures that do not vary: memory sectors moved against those that must move, conflicts
// in shared memory, launches. Counted by the simulator; nothing to test on a real GPU.
#include <algorithm>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpusim/include/gpusim_client.h"
#include "kernels/gpu_plugin.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/conv2d.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/halo.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/loss.h"
#include "kernels/ops/optimizer.h"
#include "kernels/ops/pooling.h"
#include "kernels/ops/prepare_images.h"
#include "kernels/ops/shape_ops.h"
#include "support/op_cases.h"
#include "support/op_runner.h"

namespace trifold::test {
namespace {

constexpr std::uint64_t kSectorBytes = 32;

struct Measured {
  std::uint64_t sectors = 0;
  std::uint64_t necessary = 0;
  std::uint64_t conflicts = 0;
  std::size_t launches = 0;
};

HostTensor filled(const TensorDesc& desc) {
  HostTensor tensor{desc, false, std::vector<std::byte>(desc.bytes())};
  if (desc.dtype == DType::f32)
    for (std::size_t i = 0; i < tensor.as<float>().size(); ++i)
      tensor.as<float>()[i] = 0.5f + static_cast<float>(i % 13);
  if (size_of(desc.dtype) == 2)
    for (std::size_t i = 0; i < tensor.as<std::uint16_t>().size(); ++i)
      tensor.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(0x3800 + i % 13);  // small numbers in both types
  return tensor;
}

struct Case {
  std::string name;
  OpPtr op;
  std::vector<TensorDesc> in;
  std::vector<TensorDesc> out;
  std::vector<int> updates = {};  // an output's input, where it is updated in place
  // Where a library does the rest of the op: what our kernels must move, and their names.
  std::vector<TensorDesc> own_part = {};
  std::vector<std::string_view> own_kernels = {};
  bool own_convolutions = false;
};

std::uint64_t sectors_of(std::span<const TensorDesc> tensors) {
  std::uint64_t sectors = 0;
  for (const TensorDesc& desc : tensors) sectors += (desc.bytes() + kSectorBytes - 1) / kSectorBytes;
  return sectors;
}

// Of the case's own kernels, where it names them.
bool counts(const Case& each, std::string_view kernel) {
  return each.own_kernels.empty() || std::ranges::any_of(each.own_kernels, [&](std::string_view name) {
           return kernel.find(name) != std::string_view::npos;
         });
}

Measured measure(const Case& each) {
  GpuPlugin& plugin = *find_gpus().plugin;
  std::vector<HostTensor> in;
  std::vector<OpOutput> out;
  Measured measured;
  for (const TensorDesc& desc : each.in) in.push_back(filled(desc));
  for (std::size_t i = 0; i < each.out.size(); ++i)
    out.push_back({.desc = each.out[i], .updates = i < each.updates.size() ? each.updates[i] : -1});
  measured.necessary = each.own_part.empty() ? sectors_of(each.in) + sectors_of(each.out) : sectors_of(each.own_part);
  const OpRun run{
      .backend = plugin.backend(each.own_convolutions), .device = &plugin.device(0), .context = case_context()};
  gpusim_client::statistics(true);
  run_op(run, *each.op, in, out);
  gpusim_client::statistics(false);
  for (const GpusimLaunch& launch : gpusim_client::launches()) {
    if (!counts(each, launch.kernel)) continue;
    measured.sectors += launch.global_read_sectors + launch.global_write_sectors;
    // Our own convolution lays its weights out anew before the product: a pass over a small tensor, not its main loop.
    if (std::string_view(launch.kernel).find("lay_weights") == std::string_view::npos)
      measured.conflicts += launch.shared_conflicts;
    measured.launches += 1;
  }
  return measured;
}

template <class T>
OpPtr make_op(T op) {
  return std::make_shared<const T>(std::move(op));
}

// Where a tensor's images lie: NCHW, or NHWC.
Layout layout_of(bool channels_last, const Shape& shape) {
  return channels_last ? Layout{Order::channel_block, static_cast<int>(shape[1])} : Layout{};
}

TensorDesc as_type(TensorDesc desc, DType type) {
  desc.dtype = type;
  return desc;
}

// For both layouts and two types: add(cases, channels_last, type, suffix of names).
template <class AddCases>
std::vector<Case> in_every_form(const AddCases& add) {
  std::vector<Case> cases;
  for (const bool channels_last : {false, true})
    for (const DType type : {DType::f32, DType::f16})
      add(cases, channels_last, type, std::string(channels_last ? "_nhwc_" : "_nchw_") + name_of(type));
  return cases;
}

// Large enough that a kernel's fixed reads (statistics, scales) do not count.
std::vector<Case> image_cases() {
  return in_every_form([](std::vector<Case>& cases, bool channels_last, DType type, const std::string& suffix) {
    const auto images = [&](const Shape& shape) { return TensorDesc{shape, type, layout_of(channels_last, shape)}; };
    const TensorDesc image = images({4, 32, 24, 24});
    const TensorDesc half_image = images({4, 16, 24, 24});
    const TensorDesc channels{{32}};
    const TensorDesc groups{{1, 32}};
    const auto add = [&](const std::string& name, OpPtr op, std::vector<TensorDesc> in, std::vector<TensorDesc> out) {
      cases.push_back({name + suffix, std::move(op), std::move(in), std::move(out)});
    };
    add("relu", make_op(ActivationForward()), {image}, {image});
    add("relu_gradient", make_op(ActivationBackward()), {image, image}, {image});
    add("add", make_op(Add()), {image, image}, {image});
    add("concat", make_op(Concat()), {half_image, half_image}, {image});
    TakeRows take_rows;
    take_rows.first_row = -4;
    const TensorDesc rows = images({4, 32, 12, 24});
    const TensorDesc found = images({4, 32, 8, 24});  // the rest is the edge
    cases.push_back({"take_rows" + suffix, make_op(take_rows), {image}, {rows}, {}, {found, rows}});
    add("dropout", make_op(DropoutForward()), {image}, {image});
    DropoutForward dropout2d;
    dropout2d.args.channels = true;
    add("dropout2d", make_op(dropout2d), {image}, {image});
    const TensorDesc means{{4, 32}, type};
    add("global_avg_pool", make_op(GlobalAvgPoolForward()), {image}, {means});
    add("global_avg_pool_gradient", make_op(GlobalAvgPoolBackward()), {means}, {image});
    TensorDesc other = image;
    other.layout = layout_of(!channels_last, image.shape);
    add("reorder", make_op(Reorder()), {image}, {other});
    BatchNormStatistics statistics;
    statistics.group = 4;
    cases.push_back({"batch_norm_statistics" + suffix,
                     make_op(statistics),
                     {image, channels, channels},
                     {groups, groups, channels, channels},
                     {-1, -1, 1, 2}});
    BatchNormApply apply;
    apply.group = 4;
    apply.relu = true;
    add("batch_norm_apply", make_op(apply), {image, groups, groups, channels, channels}, {image});
    BatchNormBackwardReduce reduce;
    reduce.group = 4;
    reduce.mask = ReluMask::from_x;
    add("batch_norm_backward_reduce", make_op(reduce), {image, image, groups, groups, channels, channels},
        {groups, groups, channels, channels});
    BatchNormBackwardInput input;
    input.group = 4;
    input.mask = ReluMask::from_x;
    add("batch_norm_backward_input", make_op(input), {image, image, groups, groups, channels, channels, groups, groups},
        {image});
    if (type == DType::f32) add("cast", make_op(Cast()), {image}, {as_type(image, DType::f16)});
  });
}

struct Window {
  std::string name;
  PoolArgs args;
};

// Windows that meet and windows that overlap, as in ResNet (stride 2) and Inception (stride 1).
std::vector<Case> pooling_cases() {
  const Window windows[] = {{"2x2_stride2", {}},
                            {"3x3_stride2", {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}}},
                            {"3x3_stride1", {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}}}};
  return in_every_form([&](std::vector<Case>& cases, bool channels_last, DType type, const std::string& suffix) {
    for (const Shape& shape : {Shape{4, 32, 24, 24}, Shape{2, 64, 28, 28}})
      for (const Window& window : windows) {
        const auto extent = [&](std::size_t d) {
          return conv_out_extent(shape[2 + static_cast<int>(d)], window.args.kernel[d], window.args.stride[d],
                                 window.args.pad[d], 1);
        };
        const Shape pooled{shape[0], shape[1], extent(0), extent(1)};
        const TensorDesc x{shape, type, layout_of(channels_last, shape)};
        const TensorDesc y{pooled, type, layout_of(channels_last, shape)};
        const TensorDesc argmax = as_type(y, DType::u8);
        const auto add = [&](const std::string& name, auto op, std::vector<TensorDesc> in,
                             std::vector<TensorDesc> out) {
          op.args = window.args;
          cases.push_back({fmt::format("{}_{}_of_{}{}", name, window.name, shape[2], suffix), make_op(std::move(op)),
                           std::move(in), std::move(out)});
        };
        MaxPoolForward evaluation;
        evaluation.keep_argmax = false;
        MaxPoolBackward after_relu;
        after_relu.relu = true;
        add("max_pool", MaxPoolForward(), {x}, {y, argmax});
        add("max_pool_evaluation", evaluation, {x}, {y});
        add("max_pool_gradient", MaxPoolBackward(), {y, argmax}, {x});
        add("max_pool_relu_gradient", after_relu, {y, argmax, y}, {x});
        add("avg_pool", AvgPoolForward(), {x}, {y});
        add("avg_pool_gradient", AvgPoolBackward(), {y}, {x});
      }
  });
}

std::vector<Case> input_cases() {
  std::vector<Case> cases;
  PrepareImages prepare;
  prepare.args = {.mean = {0.4f, 0.5f, 0.6f}, .deviation = {0.2f, 0.2f, 0.2f}, .augmentations = {}};
  const TensorDesc raw{{8, 3, 32, 32}, DType::u8};
  cases.push_back({"prepare_images", make_op(prepare), {raw}, {{{8, 3, 32, 32}}}});
  prepare.args.augmentations = {HorizontalFlip{1.0f}};
  cases.push_back({"prepare_images_flipped", make_op(prepare), {raw}, {{{8, 3, 32, 32}}}});
  prepare.args.augmentations = {RandomCrop{4}, HorizontalFlip{0.5f}, Cutout{8}};
  cases.push_back({"prepare_images_changed", make_op(prepare), {raw}, {{{8, 3, 32, 32}}}});
  return cases;
}

// A bias that the libraries do not add (f16), and its gradient. cuDNN has f32 as NCHW and f16 as NHWC; our own
// convolution has NCHW only.
std::vector<Case> bias_cases() {
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::f16}) {
    const auto add = [&](const std::string& name, Case each) {
      each.name = name + "_" + name_of(type);
      cases.push_back(std::move(each));
    };
    const auto gradient_of = [](OpPtr op, const TensorDesc& x, const TensorDesc& dy, const Shape& weights,
                                bool own_convolutions) {
      const TensorDesc bias{{dy.shape[1]}};
      return Case{.name = {},
                  .op = std::move(op),
                  .in = {x, dy},
                  .out = {{weights}, bias},
                  .own_part = {dy, bias},
                  .own_kernels = {"sum_planes", "sum_rows", "sum_parts"},
                  .own_convolutions = own_convolutions};
    };
    const auto bias_of = [](OpPtr op, const TensorDesc& x, const TensorDesc& weights, const TensorDesc& y) {
      const TensorDesc bias{{y.shape[1]}};
      return Case{.name = {},
                  .op = std::move(op),
                  .in = {x, weights, bias},
                  .out = {y},
                  .own_part = {y, bias, y},
                  .own_kernels = {"add_bias"}};
    };
    Conv2dBackwardWeights conv_weights;
    conv_weights.bias = true;
    const OpPtr conv = make_op(conv_weights);
    const TensorDesc x{{4, 8, 24, 24}, type};
    const TensorDesc y{{4, 32, 24, 24}, type};
    const TensorDesc small_x{{64, 8, 7, 7}, type};
    const TensorDesc small_y{{64, 32, 7, 7}, type};
    add("conv_bias_gradient", gradient_of(conv, x, y, {32, 8, 1, 1}, false));
    add("own_conv_bias_gradient", gradient_of(conv, x, y, {32, 8, 1, 1}, true));
    add("own_conv_bias_gradient_of_small_planes", gradient_of(conv, small_x, small_y, {32, 8, 1, 1}, true));
    LinearBackwardWeights linear_weights;
    linear_weights.bias = true;
    const TensorDesc rows{{256, 64}, type};
    const TensorDesc features{{256, 512}, type};
    add("linear_bias_gradient", gradient_of(make_op(linear_weights), rows, features, {512, 64}, false));
    if (type == DType::f32) continue;
    Conv2dForward forward;
    forward.bias = true;
    forward.relu = true;
    add("conv_bias", bias_of(make_op(forward), x, {{32, 8, 1, 1}, type}, y));
    LinearForward linear;
    linear.bias = true;
    add("linear_bias", bias_of(make_op(linear), rows, {{512, 64}, type}, features));
  }
  return cases;
}

// Few classes and many, as many as fit into shared memory. Batches of a few sectors are not asked: beside so little,
// the labels, the report and the sums of single blocks count, whatever the kernel does.
std::vector<Case> loss_cases() {
  std::vector<Case> cases;
  for (const Shape& shape : {Shape{256, 10}, Shape{128, 100}, Shape{64, 1000}, Shape{64, 1003}}) {
    const TensorDesc rows{shape};
    const TensorDesc labels{{shape[0]}, DType::i32};
    const TensorDesc report{{2}, DType::f64};
    const auto add = [&](const std::string& name, OpPtr op, std::vector<TensorDesc> in, std::vector<TensorDesc> out) {
      cases.push_back({fmt::format("{}_of_{}_classes", name, shape[1]), std::move(op), std::move(in), std::move(out)});
    };
    CrossEntropy evaluation;
    evaluation.gradient = false;
    add("cross_entropy", make_op(CrossEntropy()), {rows, labels}, {report, rows});
    add("cross_entropy_evaluation", make_op(evaluation), {rows, labels}, {report});
    add("log_softmax", make_op(LogSoftmaxForward()), {rows}, {rows});
    add("log_softmax_gradient", make_op(LogSoftmaxBackward()), {rows, rows}, {rows});
    add("mse", make_op(MeanSquares()), {rows, rows, labels}, {report, rows});
  }
  return cases;
}

class Streaming : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!gpusim_client::available()) GTEST_SKIP() << "counted by the simulator only";
  }
};

TEST_P(Streaming, MovesHardlyMoreThanItMust) {
  const Measured measured = measure(GetParam());
  EXPECT_GT(measured.launches, 0u);
  EXPECT_LE(static_cast<double>(measured.sectors), 1.1 * static_cast<double>(measured.necessary));
  EXPECT_EQ(measured.conflicts, 0u);
}

void PrintTo(const Case& each, std::ostream* os) {
  *os << each.name;
}

std::string case_name(const ::testing::TestParamInfo<Case>& each) {
  return each.param.name;
}

INSTANTIATE_TEST_SUITE_P(Images, Streaming, ::testing::ValuesIn(image_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Pooling, Streaming, ::testing::ValuesIn(pooling_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Input, Streaming, ::testing::ValuesIn(input_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Biases, Streaming, ::testing::ValuesIn(bias_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Losses, Streaming, ::testing::ValuesIn(loss_cases()), case_name);

struct OptimizerRule {
  const char* name;
  OptimizerKind kind;
  double clip_norm = 0;
  bool scales = false;
};
constexpr OptimizerRule kOptimizerRules[] = {
    {.name = "sgd", .kind = OptimizerKind::sgd},
    {.name = "adam", .kind = OptimizerKind::adam},
    {.name = "adamw", .kind = OptimizerKind::adamw},
    {.name = "lars", .kind = OptimizerKind::lars},
    {.name = "adagrad", .kind = OptimizerKind::adagrad},
    {.name = "clipped", .kind = OptimizerKind::sgd, .clip_norm = 1},
    {.name = "adam_clipped", .kind = OptimizerKind::adam, .clip_norm = 1},
    {.name = "scaled", .kind = OptimizerKind::sgd, .scales = true},
    {.name = "lars_clipped_scaled", .kind = OptimizerKind::lars, .clip_norm = 1, .scales = true},
};

Case optimizer_case(const OptimizerRule& rule, int tensors) {
  OptimizerUpdate op;
  op.args.kind = rule.kind;
  op.args.momentum = 0.9;
  op.args.clip_norm = rule.clip_norm;
  if (rule.scales) op.scaling.emplace();
  const std::int64_t each = 1024;
  for (int i = 0; i < tensors; ++i) op.segments.push_back({i * each, (i + 1) * each, i % 2 == 0});
  const TensorDesc flat{{tensors * each}};
  Case one{rule.name, nullptr, {flat, flat}, {flat}, {0}};
  const auto add_state = [&one](const TensorDesc& desc) {
    one.updates.push_back(static_cast<int>(one.in.size()));
    one.in.push_back(desc);
    one.out.push_back(desc);
  };
  for (int state = 0; state < op.state_count(); ++state) add_state(flat);
  if (rule.scales) add_state({{kLossScaleFloats}});
  one.out.push_back({{1}, DType::f64});
  one.op = make_op(op);
  return one;
}

TEST(Optimizer, TakesOneLaunchHoweverManyTensors) {
  if (!gpusim_client::available()) GTEST_SKIP() << "counted by the simulator only";
  for (const OptimizerRule& rule : kOptimizerRules) {
    const Case many = optimizer_case(rule, 40);
    EXPECT_EQ(measure(optimizer_case(rule, 1)).launches, 1u) << rule.name;
    const Measured all = measure(many);
    EXPECT_EQ(all.launches, 1u) << rule.name;
    // What is reduced before the update is read twice: the gradients, for LARS the parameters too.
    const bool lars = rule.kind == OptimizerKind::lars;
    const bool reduces = lars || rule.clip_norm > 0 || rule.scales;
    const std::uint64_t again = (reduces ? 1u : 0u) + (lars ? 1u : 0u);
    const std::uint64_t necessary = all.necessary + again * many.in[0].bytes() / kSectorBytes;
    EXPECT_LE(static_cast<double>(all.sectors), 1.1 * static_cast<double>(necessary)) << rule.name;
  }
}

// Images are read twice, for the sums over channels and for the result: the second time they are in the cache.
TEST(LayerNorm, ReadsWholeSectorsTwice) {
  if (!gpusim_client::available()) GTEST_SKIP() << "counted by the simulator only";
  const std::int64_t places = 4 * 24 * 24;
  const std::int64_t channels = 32;
  const TensorDesc statistics{{4, 24 * 24}};
  const TensorDesc parameters{{channels}};
  for (const bool channels_last : {false, true})
    for (const DType type : {DType::f32, DType::f16}) {
      const Shape shape{4, channels, 24, 24};
      const TensorDesc image{shape, type, layout_of(channels_last, shape)};
      // A warp reads each parameter for its 32 places, or all of them for its place, 16 bytes a lane: half a sector
      // where lanes have 8 channels each.
      const std::int64_t of_parameter = places * channels / (!channels_last ? 32 : type == DType::f32 ? 8 : 4);
      const auto expect = [&](const Case& each, std::int64_t images, std::int64_t of_statistics) {
        SCOPED_TRACE(each.name + (channels_last ? " nhwc " : " nchw ") + name_of(type));
        const Measured measured = measure(each);
        const auto of_image = static_cast<std::int64_t>(image.bytes() / kSectorBytes);
        const std::int64_t necessary = images * of_image + 2 * of_parameter + of_statistics;
        EXPECT_LE(static_cast<double>(measured.sectors), 1.1 * static_cast<double>(necessary));
        EXPECT_EQ(measured.conflicts, 0u);
        EXPECT_EQ(measured.launches, 1u);
      };
      expect({"forward", make_op(LayerNormForward()), {image, parameters, parameters}, {image, statistics, statistics}},
             3, 3 * places);
      expect({"input gradient",
              make_op(LayerNormBackwardInput()),
              {image, image, statistics, statistics, parameters},
              {image}},
             5, 2 * places);
    }
}

TEST(OwnConvolution, HasNoBankConflicts) {
  if (!gpusim_client::available()) GTEST_SKIP() << "counted by the simulator only";
  for (const DType type : {DType::f32, DType::f16}) {
    const TensorDesc x{{2, 16, 12, 12}, type};
    const TensorDesc w{{32, 16, 3, 3}, type};
    const TensorDesc y{{2, 32, 12, 12}, type};
    const TensorDesc dw{{32, 16, 3, 3}};
    Conv2dForward forward;
    forward.args.pad = {1, 1};
    Conv2dBackwardData data;
    data.args = forward.args;
    Conv2dBackwardWeights weights;
    weights.args = forward.args;
    for (Case each : {Case{"forward", make_op(forward), {x, w}, {y}}, Case{"data", make_op(data), {y, w}, {x}},
                      Case{"weights", make_op(weights), {x, y}, {dw}}}) {
      each.own_convolutions = true;
      EXPECT_EQ(measure(each).conflicts, 0u) << each.name << " " << name_of(type);
    }
  }
}

}  // namespace
}  // namespace trifold::test
