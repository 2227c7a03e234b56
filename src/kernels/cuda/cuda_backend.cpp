// The CUDA backend and the layouts it wants. In 16 bits images lie channels-last wherever tensor cores can use that
// (channels in eights); in f32, and for our own convolutions, row-major.
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/own_conv.h"
#include "kernels/layout_rules.h"
#include "kernels/ops/conv2d.h"

namespace trifold::cuda {
namespace {

using Tensors = std::span<const TensorDesc>;

constexpr std::int64_t kTensorCoreChannels = 8;

Layout channels_last(const TensorDesc& image) {
  return {Order::channel_block, static_cast<int>(image.shape[1])};
}

class CudaBackend final : public Backend {
 public:
  CudaBackend() : Backend("cuda") {}

  // Events, tables and what libraries look up belong to the GPU that is current when a kernel is made.
  KernelPtr make(const KernelRequest& request) const override {
    static_cast<CudaDevice&>(*request.device).make_current();
    return Backend::make(request);
  }

  LayoutChoice choose_layouts(const Op& op, Tensors in, Tensors out) const override {
    if (op.layout_rule() == LayoutRule::convolution)
      return for_convolution(static_cast<const Convolution&>(op), in, out);
    return of_other(op, in, out);
  }

  static LayoutChoice of_other(const Op& op, Tensors in, Tensors out) {
    switch (op.layout_rule()) {
      case LayoutRule::as_given:
        return layouts_as_given(op, in, out);
      case LayoutRule::like_leading_image:
        return layouts_like_leading_image(op, in, out);
      case LayoutRule::like_first_tensor:
        return layouts_like_first_tensor(in, out);
      case LayoutRule::matrix_product:
        return layouts_of_matrix_product(op, in, out);
      case LayoutRule::joins_channels:
      case LayoutRule::splits_channels:
        return for_parts(in, out);
      case LayoutRule::image_to_row:
        return {{in[0].layout}, {Layout{}}};
      case LayoutRule::plain:
      case LayoutRule::convolution:
      case LayoutRule::gathers_channels:
      case LayoutRule::row_to_image:
      case LayoutRule::same_on_all_ranks:
      case LayoutRule::message:
        break;
    }
    return plain_layouts(in, out);
  }

 private:
  static bool wants_channels_last(const Conv2dArgs& args, const TensorDesc& x, const TensorDesc& y) {
    return x.dtype != DType::f32 && args.groups == 1 && x.shape[1] % kTensorCoreChannels == 0 &&
           y.shape[1] % kTensorCoreChannels == 0;
  }

  // Every tensor of a convolution is an image (x, y, dx, dy), weights (w, dw) or a vector.
  static LayoutChoice for_convolution(const Convolution& op, Tensors in, Tensors out) {
    const auto tensors = operands_of(op.pass(), in, out);
    LayoutChoice choice = plain_layouts(in, out);
    if (!wants_channels_last(op.args, tensors.x, tensors.y)) return choice;
    const auto layouts = operands_of(op.pass(), choice.in, choice.out);
    layouts.x = channels_last(tensors.x);
    layouts.w = {Order::conv_last};
    layouts.y = channels_last(tensors.y);
    return choice;
  }

  // Channels-last where the first part is, each with its own number of channels.
  static LayoutChoice for_parts(Tensors in, Tensors out) {
    LayoutChoice choice = plain_layouts(in, out);
    if (!is_image(in[0]) || in[0].layout.plain()) return choice;
    for (std::size_t i = 0; i < in.size(); ++i) choice.in[i] = channels_last(in[i]);
    for (std::size_t i = 0; i < out.size(); ++i) choice.out[i] = channels_last(out[i]);
    return choice;
  }
};

// The same kernels, but for convolutions, which are our own and read row-major tensors.
class OwnConvBackend final : public Backend {
 public:
  OwnConvBackend() : Backend("cuda own") {}

  bool supports(std::string_view op_name) const override { return cuda_backend().supports(op_name); }
  KernelPtr make(const KernelRequest& request) const override {
    if (request.op.kind() != OpKind::convolution) return cuda_backend().make(request);
    static_cast<CudaDevice&>(*request.device).make_current();
    return make_own_conv(request);
  }
  LayoutChoice choose_layouts(const Op& op, Tensors in, Tensors out) const override {
    return CudaBackend::of_other(op, in, out);  // convolutions: plain
  }
};

}  // namespace

Backend& cuda_backend() {
  static CudaBackend backend;
  return backend;
}

Backend& own_conv_backend() {
  static OwnConvBackend backend;
  return backend;
}

}  // namespace trifold::cuda
