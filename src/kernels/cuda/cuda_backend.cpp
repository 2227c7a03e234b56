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
    const std::string_view name = op.name();
    if (name == "conv2d.forward")
      return for_conv(static_cast<const Conv2dForward&>(op).args, in[0], in[1], out[0], in, out);
    if (name == "conv2d.backward_data")
      return for_conv(static_cast<const Conv2dBackwardData&>(op).args, out[0], in[1], in[0], in, out);
    if (name == "conv2d.backward_weights")
      return for_conv(static_cast<const Conv2dBackwardWeights&>(op).args, in[0], out[0], in[1], in, out);
    return of_other(op, in, out);
  }

  static LayoutChoice of_other(const Op& op, Tensors in, Tensors out) {
    const std::string_view name = op.name();
    if (name.starts_with("linear.")) return layouts_of_linear(name, in, out);
    if (name == "global_avg_pool.forward") return {{in[0].layout}, {Layout{}}};
    if (name == "cast") return layouts_like_first_tensor(in, out);
    if (name == "concat" || name == "split_channels") return for_parts(in, out);
    if (name.starts_with("optimizer.") || name == "reorder" || op.is_view()) return layouts_as_given(op, in, out);
    if (name.starts_with("batch_norm.") || name.starts_with("activation.") || name.starts_with("max_pool.") ||
        name.starts_with("avg_pool.") || name.starts_with("dropout.") || name == "add" || name == "halo_exchange" ||
        name == "gather_rows" || name == "halo_add" || name == "take_rows")
      return layouts_like_leading_image(op, in, out);
    return {std::vector<Layout>(in.size()), std::vector<Layout>(out.size())};
  }

 private:
  static bool wants_channels_last(const Conv2dArgs& args, const TensorDesc& x, const TensorDesc& y) {
    return x.dtype != DType::f32 && args.groups == 1 && x.shape[1] % kTensorCoreChannels == 0 &&
           y.shape[1] % kTensorCoreChannels == 0;
  }

  // Every tensor of a convolution is an image (x, y, dx, dy), weights (w, dw) or a vector.
  static LayoutChoice for_conv(const Conv2dArgs& args, const TensorDesc& x, const TensorDesc& w, const TensorDesc& y,
                               Tensors in, Tensors out) {
    LayoutChoice choice = {std::vector<Layout>(in.size()), std::vector<Layout>(out.size())};
    if (!wants_channels_last(args, x, y)) return choice;
    const auto layout_of = [&](const TensorDesc& tensor) {
      if (&tensor == &w) return Layout{Order::conv_last};
      return is_image(tensor) ? channels_last(tensor) : Layout{};
    };
    for (std::size_t i = 0; i < in.size(); ++i) choice.in[i] = layout_of(in[i]);
    for (std::size_t i = 0; i < out.size(); ++i) choice.out[i] = layout_of(out[i]);
    return choice;
  }

  // Channels-last where the first part is, each with its own number of channels.
  static LayoutChoice for_parts(Tensors in, Tensors out) {
    LayoutChoice choice = {std::vector<Layout>(in.size()), std::vector<Layout>(out.size())};
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
    if (!request.op.name().starts_with("conv2d.")) return cuda_backend().make(request);
    static_cast<CudaDevice&>(*request.device).make_current();
    return make_own_conv(request);
  }
  LayoutChoice choose_layouts(const Op& op, Tensors in, Tensors out) const override {
    if (op.name().starts_with("conv2d.")) return {std::vector<Layout>(in.size()), std::vector<Layout>(out.size())};
    return CudaBackend::of_other(op, in, out);
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
