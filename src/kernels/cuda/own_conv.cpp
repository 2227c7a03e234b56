// The three convolution kernels of our own, made of the gathering convolution and the weight gradient.
#include "kernels/cuda/own_conv.h"

#include <algorithm>

#include "kernels/cuda/bias_gradient.h"
#include "kernels/cuda/own_conv_backward_weights.h"
#include "kernels/cuda/own_conv_gather.h"

namespace trifold::cuda {
namespace {

void check_plain(const KernelRequest& request) {
  for (const std::span<const TensorDesc> tensors : {request.in, request.out})
    for (const TensorDesc& tensor : tensors)
      TRIFOLD_CHECK(tensor.layout.plain(), "our own {} reads row-major tensors, not {}", request.op.name(),
                    to_string(tensor));
}

class OwnConvForward final : public CudaKernel {
 public:
  explicit OwnConvForward(const KernelRequest& request)
      : CudaKernel(request),
        relu_(op_as<Conv2dForward>(request).relu),
        bias_(op_as<Conv2dForward>(request).bias),
        dtype_(request.in[0].dtype),
        plan_(op_as<Conv2dForward>(request).args,
              conv_shape(op_as<Conv2dForward>(request).args, request.in[0].shape, request.in[1].shape,
                         request.out[0].shape),
              /*is_backward=*/false, *request.device) {}

  std::string implementation() const override { return plan_.direct() ? "own direct" : "own implicit gemm"; }
  std::size_t scratch_bytes() const override { return plan_.laid_weight_bytes(); }

  void run(const StepContext&) override {
    launch_gather(plan_,
                  {.dtype = dtype_,
                   .source = in<void>(0),
                   .weights = in<void>(1),
                   .bias = bias_ ? in(2) : nullptr,
                   .relu = relu_,
                   .out = out<void>(0),
                   .laid_weights = reinterpret_cast<float*>(scratch())},
                  stream());
  }

 private:
  bool relu_, bias_;
  DType dtype_;
  GatherPlan plan_;
};

class OwnConvBackwardData final : public CudaKernel {
 public:
  explicit OwnConvBackwardData(const KernelRequest& request)
      : CudaKernel(request),
        dtype_(request.in[0].dtype),
        plan_(op_as<Conv2dBackwardData>(request).args,
              conv_shape(op_as<Conv2dBackwardData>(request).args, request.out[0].shape, request.in[1].shape,
                         request.in[0].shape),
              /*is_backward=*/true, *request.device) {}

  std::string implementation() const override { return plan_.direct() ? "own direct" : "own implicit gemm"; }
  std::size_t scratch_bytes() const override { return plan_.laid_weight_bytes(); }

  void run(const StepContext&) override {
    launch_gather(plan_,
                  {.dtype = dtype_,
                   .source = in<void>(0),
                   .weights = in<void>(1),
                   .out = out<void>(0),
                   .laid_weights = reinterpret_cast<float*>(scratch())},
                  stream());
  }

 private:
  DType dtype_;
  GatherPlan plan_;
};

class OwnConvBackwardWeights final : public CudaKernel {
 public:
  explicit OwnConvBackwardWeights(const KernelRequest& request)
      : CudaKernel(request),
        bias_(op_as<Conv2dBackwardWeights>(request).bias),
        dtype_(request.in[0].dtype),
        dy_(image_view(request.in[1])),
        plan_(op_as<Conv2dBackwardWeights>(request).args,
              conv_shape(op_as<Conv2dBackwardWeights>(request).args, request.in[0].shape, request.out[0].shape,
                         request.in[1].shape),
              device()) {}

  std::string implementation() const override { return plan_.direct() ? "own direct" : "own implicit gemm"; }
  std::size_t scratch_bytes() const override {  // one after the other: the bias follows when the weights are done
    return std::max(plan_.scratch_bytes(), bias_ ? bias_gradient_scratch(dy_) : 0);
  }

  void run(const StepContext&) override {
    launch_weight_gradient(
        plan_, {.dtype = dtype_, .x = in<void>(0), .dy = in<void>(1), .dw = out(0), .scratch = scratch()}, stream());
    if (!bias_) return;
    launch_bias_gradient(
        {.device = &device(), .view = dy_, .dtype = dtype_, .dy = in<void>(1), .scratch = scratch(), .dbias = out(1)});
  }

 private:
  bool bias_;
  DType dtype_;
  ImageView dy_;
  WeightGradientPlan plan_;
};

}  // namespace

KernelPtr make_own_conv(const KernelRequest& request) {
  check_plain(request);
  switch (op_as<Convolution>(request).pass()) {
    case ProductPass::forward:
      return make_kernel<OwnConvForward>(request);
    case ProductPass::backward_data:
      return make_kernel<OwnConvBackwardData>(request);
    case ProductPass::backward_weights:
      break;
  }
  return make_kernel<OwnConvBackwardWeights>(request);
}

}  // namespace trifold::cuda
