#include "kernels/layout_rules.h"

#include "kernels/ops/linear.h"

namespace trifold {

using Tensors = std::span<const TensorDesc>;

bool is_image(const TensorDesc& tensor) {
  return tensor.shape.rank() == 4;
}

LayoutChoice plain_layouts(Tensors in, Tensors out) {
  return {std::vector<Layout>(in.size()), std::vector<Layout>(out.size())};
}

LayoutChoice layouts_like_leading_image(const Op& op, Tensors in, Tensors out) {
  const TensorDesc& leading = in[static_cast<std::size_t>(op.leading_image())];
  const Layout layout = is_image(leading) ? leading.layout : Layout{};
  const auto choose = [&](Tensors tensors) {
    std::vector<Layout> layouts;
    for (const TensorDesc& tensor : tensors) layouts.push_back(is_image(tensor) ? layout : Layout{});
    return layouts;
  };
  return {choose(in), choose(out)};
}

LayoutChoice layouts_like_first_tensor(Tensors in, Tensors out) {
  LayoutChoice choice = plain_layouts(in, out);
  choice.in[0] = choice.out[0] = in[0].layout;
  return choice;
}

LayoutChoice layouts_as_given(const Op& op, Tensors in, Tensors out) {
  LayoutChoice choice;
  for (const TensorDesc& tensor : in) choice.in.push_back(tensor.layout);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::vector<int> sources = op.in_place(static_cast<int>(i));
    choice.out.push_back(sources.empty() ? out[i].layout : in[static_cast<std::size_t>(sources[0])].layout);
  }
  return choice;
}

LayoutChoice layouts_of_matrix_product(const Op& op, Tensors in, Tensors out) {
  const ProductPass pass = static_cast<const MatrixProduct&>(op).pass();
  const auto tensors = operands_of(pass, in, out);
  LayoutChoice choice = plain_layouts(in, out);
  const auto layouts = operands_of(pass, choice.in, choice.out);
  layouts.x = layouts.w = (pass == ProductPass::backward_data ? tensors.w : tensors.x).layout;
  return choice;
}

}  // namespace trifold
