// The CPU backend and the layouts it wants: images in channel blocks of one vector wherever the block divides the
// channels, weights to match, all else row-major.
#include <algorithm>

#include "kernels/backend.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/simd/isa.h"
#include "kernels/cpu/tuner.h"
#include "kernels/layout_rules.h"
#include "kernels/ops/conv2d.h"
#include "kernels/ops/shape_ops.h"

namespace trifold {
namespace {

using Tensors = std::span<const TensorDesc>;

class CpuBackend final : public Backend {
 public:
  CpuBackend() : Backend("cpu", [](auto... tensors) { cpu::convert(tensors...); }) {}

  KernelPtr make(const KernelRequest& request) const override {
    std::vector<KernelPtr> candidates = cpu::bf16_candidates(request);
    if (candidates.empty()) return Backend::make(request);
    candidates.push_back(Backend::make(request));
    return cpu::fastest_kernel(cpu::machine_tuner(), request, std::move(candidates));
  }

  LayoutChoice choose_layouts(const Op& op, Tensors in, Tensors out) const override {
    const std::string_view name = op.name();
    if (name.starts_with("conv2d.")) return for_conv2d(op, in, out);
    if (name.starts_with("linear.")) return layouts_of_linear(name, in, out);
    if (name == "global_avg_pool.forward") return {{in[0].layout}, {Layout{}}};
    if (name == "global_avg_pool.backward") return {{Layout{}}, {image_layout(out[0])}};
    if (name == "cast" || name == "all_reduce") return layouts_like_first_tensor(in, out);
    // Stages agree on how a message lies by its shape alone.
    if (name == "send") return {{image_layout(in[0])}, {}};
    if (name == "receive") return {{}, {image_layout(out[0])}};
    if (name == "gather_channels") return for_parts(out[0], in, {});
    if (name == "concat") return for_parts(out[0], in, {});
    if (name == "split_channels") return for_parts(in[0], out, static_cast<const SplitChannels&>(op).first_channel);
    if (name.starts_with("optimizer.") || name == "reorder" || op.is_view()) return layouts_as_given(op, in, out);
    if (name.starts_with("batch_norm.") || name.starts_with("activation.") || name.starts_with("max_pool.") ||
        name.starts_with("avg_pool.") || name.starts_with("dropout.") || name == "add" || name == "halo_exchange" ||
        name == "gather_rows" || name == "halo_add" || name == "take_rows")
      return layouts_like_leading_image(op, in, out);
    return Backend::choose_layouts(op, in, out);
  }

 private:
  int block() const { return cpu::simd_lanes(); }
  bool divides(std::int64_t channels) const { return channels % block() == 0; }
  Layout blocked(Order order) const { return {order, block()}; }
  Layout image_layout(const TensorDesc& tensor) const {
    return is_image(tensor) && divides(tensor.shape[1]) ? blocked(Order::channel_block) : Layout{};
  }

  struct ConvLayouts {
    Layout x, w, y;
  };
  ConvLayouts conv_layouts(const TensorDesc& x, const TensorDesc& w, const TensorDesc& y, std::int64_t groups) const {
    const std::int64_t in_channels = x.shape[1];
    const std::int64_t out_channels = y.shape[1];
    const Layout image = blocked(Order::channel_block);
    if (groups > 1) {
      if (groups == in_channels && groups == out_channels)
        return divides(groups) ? ConvLayouts{image, blocked(Order::conv_depthwise), image} : ConvLayouts{};
      const bool whole_blocks = divides(w.shape[1]) && divides(out_channels / groups);
      return whole_blocks ? ConvLayouts{image, blocked(Order::conv_block), image} : ConvLayouts{};
    }
    ConvLayouts layouts = {image_layout(x), {}, image_layout(y)};
    if (!layouts.y.plain()) layouts.w = blocked(layouts.x.plain() ? Order::conv_first : Order::conv_block);
    return layouts;
  }

  LayoutChoice for_conv2d(const Op& op, Tensors in, Tensors out) const {
    const Layout plain;
    if (op.name() == "conv2d.forward") {
      const auto [x, w, y] = conv_layouts(in[0], in[1], out[0], static_cast<const Conv2dForward&>(op).args.groups);
      LayoutChoice choice = {{x, w}, {y}};
      if (in.size() > 2) choice.in.push_back(plain);
      return choice;
    }
    if (op.name() == "conv2d.backward_data") {
      const auto [x, w, y] = conv_layouts(out[0], in[1], in[0], static_cast<const Conv2dBackwardData&>(op).args.groups);
      return {{y, w}, {x}};
    }
    const auto [x, w, y] =
        conv_layouts(in[0], out[0], in[1], static_cast<const Conv2dBackwardWeights&>(op).args.groups);
    LayoutChoice choice = {{x, y}, {w}};
    if (out.size() > 1) choice.out.push_back(plain);
    return choice;
  }

  // Blocked where the block divides every part, and every part starts at a block.
  LayoutChoice for_parts(const TensorDesc& whole, Tensors parts, std::span<const std::int64_t> first_channel) const {
    const bool aligned = is_image(whole) && divides(whole.shape[1]) &&
                         std::ranges::all_of(parts, [&](const TensorDesc& part) { return divides(part.shape[1]); }) &&
                         std::ranges::all_of(first_channel, [&](std::int64_t first) { return divides(first); });
    const Layout layout = aligned ? blocked(Order::channel_block) : Layout{};
    const std::vector<Layout> of_whole = {layout};
    const std::vector<Layout> of_parts(parts.size(), layout);
    return first_channel.empty() ? LayoutChoice{of_parts, of_whole} : LayoutChoice{of_whole, of_parts};
  }
};

}  // namespace

Backend& cpu_backend() {
  static CpuBackend backend;
  return backend;
}

}  // namespace trifold
