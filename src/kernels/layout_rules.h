// Choices of layouts that every backend makes alike.
#pragma once

#include "kernels/backend.h"

namespace trifold {

bool is_image(const TensorDesc& tensor);  // [N, C, H, W]

LayoutChoice plain_layouts(std::span<const TensorDesc> in, std::span<const TensorDesc> out);  // all row-major
// Element-wise and channel-wise ops: every image as the op's leading image is; all else plain.
LayoutChoice layouts_like_leading_image(const Op& op, std::span<const TensorDesc> in, std::span<const TensorDesc> out);
// The first input in any layout, the first output in the same: the elements' order does not matter.
LayoutChoice layouts_like_first_tensor(std::span<const TensorDesc> in, std::span<const TensorDesc> out);
// Inputs as they are; an output as the input whose memory it takes over, else as it is.
LayoutChoice layouts_as_given(const Op& op, std::span<const TensorDesc> in, std::span<const TensorDesc> out);
// Columns of a linear layer's input and weights may lie in any order, as long as it is the same for both.
// Asked for a MatrixProduct only.
LayoutChoice layouts_of_matrix_product(const Op& op, std::span<const TensorDesc> in, std::span<const TensorDesc> out);

}  // namespace trifold
