// Convolutions by cuDNN. The algorithm of each pass is found once by measuring on this GPU, among the deterministic
// ones that keep within the scratch limit, and remembered for the same problem. Bias and relu: fused where cuDNN can
// (f32), else one pass over y.
#include "kernels/ops/conv2d.h"

#include "kernels/cuda/bias_gradient.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/cudnn_conv.h"
#include "kernels/ops/shape_ops.h"

namespace trifold::cuda {
namespace {

constexpr std::size_t kAlign = 256;
std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

class ForwardKernel final : public CudaKernel {
 public:
  explicit ForwardKernel(const KernelRequest& request)
      : CudaKernel(request),
        op_(op_as<Conv2dForward>(request)),
        y_(request.out[0]),
        problem_({.x = request.in[0], .w = request.in[1], .y = request.out[0], .args = op_.args}),
        algorithm_(find_forward(device(), problem_, request.scratch_limit)) {
    fused_ = op_.bias && op_.relu && y_.dtype == DType::f32;
    if (fused_) bias_ = CudnnTensor::vector(y_.shape[1]);
  }

  std::size_t scratch_bytes() const override { return algorithm_.workspace_bytes; }
  std::string implementation() const override { return fmt::format("cudnn {}", algorithm_.algorithm); }

  void run(const StepContext&) override {
    const float one = 1;
    const float zero = 0;
    const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_.algorithm);
    if (fused_) {
      TRIFOLD_CUDA(cudnnConvolutionBiasActivationForward(device().cudnn(), &one, problem_.x(), in(0), problem_.w(),
                                                         in(1), problem_.convolution(), algorithm, scratch(),
                                                         algorithm_.workspace_bytes, &zero, problem_.y(), out(0),
                                                         bias_.get(), in(2), relu_.get(), problem_.y(), out(0)));
      return;
    }
    TRIFOLD_CUDA(cudnnConvolutionForward(device().cudnn(), &one, problem_.x(), in(0), problem_.w(), in(1),
                                         problem_.convolution(), algorithm, scratch(), algorithm_.workspace_bytes,
                                         &zero, problem_.y(), out(0)));
    if (op_.bias || op_.relu)
      launch_add_bias_relu({.device = &device(),
                            .view = image_view(y_),
                            .dtype = y_.dtype,
                            .y = out<void>(0),
                            .bias = op_.bias ? in(2) : nullptr,
                            .relu = op_.relu});
  }

 private:
  Conv2dForward op_;
  TensorDesc y_;
  CudnnConvProblem problem_;
  ConvAlgorithm algorithm_;
  bool fused_ = false;
  CudnnTensor bias_;
  CudnnRelu relu_;
};

class BackwardDataKernel final : public CudaKernel {
 public:
  explicit BackwardDataKernel(const KernelRequest& request)
      : CudaKernel(request),
        problem_({.x = request.out[0],
                  .w = request.in[1],
                  .y = request.in[0],
                  .args = op_as<Conv2dBackwardData>(request).args}),
        algorithm_(find_backward_data(device(), problem_, request.scratch_limit)) {}

  std::size_t scratch_bytes() const override { return algorithm_.workspace_bytes; }
  std::string implementation() const override { return fmt::format("cudnn {}", algorithm_.algorithm); }

  void run(const StepContext&) override {
    const float one = 1;
    const float zero = 0;
    TRIFOLD_CUDA(cudnnConvolutionBackwardData(device().cudnn(), &one, problem_.w(), in(1), problem_.y(), in(0),
                                              problem_.convolution(),
                                              static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_.algorithm),
                                              scratch(), algorithm_.workspace_bytes, &zero, problem_.x(), out(0)));
  }

 private:
  CudnnConvProblem problem_;
  ConvAlgorithm algorithm_;
};

class BackwardWeightsKernel final : public CudaKernel {
 public:
  explicit BackwardWeightsKernel(const KernelRequest& request)
      : CudaKernel(request),
        bias_(op_as<Conv2dBackwardWeights>(request).bias),
        dy_(request.in[1]),
        dw_(request.out[0]),
        typed_dw_(typed(request.out[0], request.in[0].dtype)),
        problem_({.x = request.in[0],
                  .w = typed_dw_,
                  .y = request.in[1],
                  .args = op_as<Conv2dBackwardWeights>(request).args}),
        algorithm_(find_backward_weights(device(), problem_, request.scratch_limit)) {
    if (converts())
      to_float_ = cuda_backend().make({.op = Cast(), .in = {&typed_dw_, 1}, .out = {&dw_, 1}, .device = &device()});
  }

  // cuDNN makes dw in the type of the images; ours is f32. Then, one after the other: workspace, dw as cuDNN makes it,
  // partial sums of the bias gradient.
  std::size_t scratch_bytes() const override { return bias_offset() + (bias_ ? bias_gradient_scratch(view()) : 0); }
  std::string implementation() const override { return fmt::format("cudnn {}", algorithm_.algorithm); }

  void run(const StepContext& context) override {
    const float one = 1;
    const float zero = 0;
    void* dw = converts() ? static_cast<void*>(scratch() + dw_offset()) : out<void>(0);
    TRIFOLD_CUDA(cudnnConvolutionBackwardFilter(device().cudnn(), &one, problem_.x(), in(0), problem_.y(), in(1),
                                                problem_.convolution(),
                                                static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_.algorithm),
                                                scratch(), algorithm_.workspace_bytes, &zero, problem_.w(), dw));
    if (to_float_) to_float_->run(context);
    if (bias_)
      launch_bias_gradient({.device = &device(),
                            .view = view(),
                            .dtype = dy_.dtype,
                            .dy = in<void>(1),
                            .scratch = scratch() + bias_offset(),
                            .dbias = out(1)});
  }

 private:
  void on_bind() override {
    if (!to_float_) return;
    std::byte* made = scratch() + dw_offset();
    std::byte* wanted = out<std::byte>(0);
    to_float_->bind({&made, 1}, {&wanted, 1}, nullptr);
  }
  static TensorDesc typed(TensorDesc tensor, DType type) {
    tensor.dtype = type;
    return tensor;
  }
  ImageView view() const { return image_view(dy_); }
  bool converts() const { return typed_dw_.dtype != DType::f32; }
  std::size_t dw_offset() const { return aligned(algorithm_.workspace_bytes); }
  std::size_t bias_offset() const { return dw_offset() + (converts() ? aligned(typed_dw_.bytes()) : 0); }

  bool bias_;
  TensorDesc dy_;
  TensorDesc dw_;
  TensorDesc typed_dw_;
  CudnnConvProblem problem_;
  ConvAlgorithm algorithm_;
  KernelPtr to_float_;
};

const RegisterKernel register_conv2d_forward(cuda_backend(), "conv2d.forward", make_kernel<ForwardKernel>);
const RegisterKernel register_conv2d_backward_data(cuda_backend(), "conv2d.backward_data",
                                                   make_kernel<BackwardDataKernel>);
const RegisterKernel register_conv2d_backward_weights(cuda_backend(), "conv2d.backward_weights",
                                                      make_kernel<BackwardWeightsKernel>);

}  // namespace
}  // namespace trifold::cuda
