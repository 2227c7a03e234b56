// How good the kernels are, by figures that do not vary: memory sectors moved against those that must move, conflicts
// in shared memory, launches. Counted by the simulator; nothing to test on a real GPU.
#include <gtest/gtest.h>

#include "gpusim/include/gpusim_client.h"
#include "kernels/gpu_plugin.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/conv2d.h"
#include "kernels/ops/dropout.h"
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
};

Measured measure(const Case& each, bool own_convolutions = false) {
  GpuPlugin& plugin = *find_gpus().plugin;
  std::vector<HostTensor> in;
  std::vector<OpOutput> out;
  Measured measured;
  for (const TensorDesc& desc : each.in) {
    in.push_back(filled(desc));
    measured.necessary += (desc.bytes() + kSectorBytes - 1) / kSectorBytes;
  }
  for (std::size_t i = 0; i < each.out.size(); ++i) {
    out.push_back({.desc = each.out[i], .updates = i < each.updates.size() ? each.updates[i] : -1});
    measured.necessary += (each.out[i].bytes() + kSectorBytes - 1) / kSectorBytes;
  }
  const OpRun run{.backend = plugin.backend(own_convolutions), .device = &plugin.device(0), .context = case_context()};
  gpusim_client::statistics(true);
  run_op(run, *each.op, in, out);
  gpusim_client::statistics(false);
  for (const GpusimLaunch& launch : gpusim_client::launches()) {
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

// Large enough that a kernel's fixed reads (statistics, scales) do not count.
std::vector<Case> streaming_cases() {
  std::vector<Case> cases;
  for (const bool channels_last : {false, true})
    for (const DType type : {DType::f32, DType::f16}) {
      const Layout layout = channels_last ? Layout{Order::channel_block, 32} : Layout{};
      const Layout half_layout = channels_last ? Layout{Order::channel_block, 16} : Layout{};
      const TensorDesc image{{4, 32, 24, 24}, type, layout};
      const TensorDesc half_image{{4, 16, 24, 24}, type, half_layout};
      const TensorDesc small{{4, 32, 12, 12}, type, layout};
      const TensorDesc channels{{32}};
      const TensorDesc groups{{1, 32}};
      const std::string suffix = std::string(channels_last ? "_nhwc_" : "_nchw_") + name_of(type);
      const auto add = [&](const std::string& name, OpPtr op, std::vector<TensorDesc> in, std::vector<TensorDesc> out) {
        cases.push_back({name + suffix, std::move(op), std::move(in), std::move(out)});
      };
      add("relu", make_op(ActivationForward()), {image}, {image});
      add("relu_gradient", make_op(ActivationBackward()), {image, image}, {image});
      add("add", make_op(Add()), {image, image}, {image});
      add("concat", make_op(Concat()), {half_image, half_image}, {image});
      DropoutForward dropout;
      add("dropout", make_op(dropout), {image}, {image});
      MaxPoolForward max_pool;
      TensorDesc argmax = small;
      argmax.dtype = DType::u8;
      add("max_pool", make_op(max_pool), {image}, {small, argmax});
      add("max_pool_gradient", make_op(MaxPoolBackward()), {small, argmax}, {image});
      add("avg_pool", make_op(AvgPoolForward()), {image}, {small});
      add("avg_pool_gradient", make_op(AvgPoolBackward()), {small}, {image});
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
      add("batch_norm_backward_input", make_op(input),
          {image, image, groups, groups, channels, channels, groups, groups}, {image});
      if (type == DType::f32) {
        TensorDesc as_half = image;
        as_half.dtype = DType::f16;
        add("cast", make_op(Cast()), {image}, {as_half});
      }
    }
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

class Streaming : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!gpusim_client::available()) GTEST_SKIP() << "counted by the simulator only";
  }
};

TEST_P(Streaming, MovesHardlyMoreThanItMust) {
  const Measured measured = measure(GetParam());
  EXPECT_LE(static_cast<double>(measured.sectors), 1.1 * static_cast<double>(measured.necessary));
  // Row-major pooling stages rows in shared memory, which its windows read two or three to a bank.
  if (GetParam().name.find("pool_nchw") != std::string::npos) return;
  EXPECT_EQ(measured.conflicts, 0u);
}

void PrintTo(const Case& each, std::ostream* os) {
  *os << each.name;
}

INSTANTIATE_TEST_SUITE_P(Kernels, Streaming, testing::ValuesIn(streaming_cases()),
                         [](const auto& each) { return each.param.name; });

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
    EXPECT_EQ(measure({"forward", make_op(forward), {x, w}, {y}}, true).conflicts, 0u) << name_of(type);
    EXPECT_EQ(measure({"data", make_op(data), {y, w}, {x}}, true).conflicts, 0u) << name_of(type);
    EXPECT_EQ(measure({"weights", make_op(weights), {x, y}, {dw}}, true).conflicts, 0u) << name_of(type);
  }
}

}  // namespace
}  // namespace trifold::test
