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
    switch (op.layout_rule()) {
      case LayoutRule::plain:
        break;
      case LayoutRule::as_given:
        return layouts_as_given(op, in, out);
      case LayoutRule::like_leading_image:
        return layouts_like_leading_image(op, in, out);
      case LayoutRule::like_first_tensor:
      case LayoutRule::same_on_all_ranks:
        return layouts_like_first_tensor(in, out);
      case LayoutRule::convolution:
        return for_convolution(static_cast<const Convolution&>(op), in, out);
      case LayoutRule::matrix_product:
        return layouts_of_matrix_product(op, in, out);
      case LayoutRule::joins_channels:
      case LayoutRule::gathers_channels:
        return for_parts(out[0], in, {});
      case LayoutRule::splits_channels:
        return for_parts(in[0], out, static_cast<const SplitChannels&>(op).first_channel);
      case LayoutRule::image_to_row:
        return {{in[0].layout}, {Layout{}}};
      case LayoutRule::row_to_image:
        return {{Layout{}}, {image_layout(out[0])}};
      case LayoutRule::message:
        return {image_layouts(in), image_layouts(out)};
    }
    return plain_layouts(in, out);
  }

 private:
  int block() const { return cpu::simd_lanes(); }
  bool divides(std::int64_t channels) const { return channels % block() == 0; }
  Layout blocked(Order order) const { return {order, block()}; }
  Layout image_layout(const TensorDesc& tensor) const {
    return is_image(tensor) && divides(tensor.shape[1]) ? blocked(Order::channel_block) : Layout{};
  }
  std::vector<Layout> image_layouts(Tensors tensors) const {
    std::vector<Layout> layouts;
    for (const TensorDesc& tensor : tensors) layouts.push_back(image_layout(tensor));
    return layouts;
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

  LayoutChoice for_convolution(const Convolution& op, Tensors in, Tensors out) const {
    const auto tensors = operands_of(op.pass(), in, out);
    LayoutChoice choice = plain_layouts(in, out);  // a bias stays plain
    const auto layouts = operands_of(op.pass(), choice.in, choice.out);
    const ConvLayouts wanted = conv_layouts(tensors.x, tensors.w, tensors.y, op.args.groups);
    layouts.x = wanted.x;
    layouts.w = wanted.w;
    layouts.y = wanted.y;
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
