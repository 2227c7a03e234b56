// Fully connected layers by cuBLASLt. Everything of ours is row-major, cuBLASLt's is column-major: a row-major [rows,
// columns] is its [columns, rows], so y = x w^T becomes y^T = w x^T, and so on.
#include "kernels/ops/linear.h"

#include "kernels/cuda/bias_gradient.h"
#include "kernels/cuda/cublas_matmul.h"
#include "kernels/cuda/cuda_kernel.h"

namespace trifold::cuda {
namespace {

ImageView rows_view(const TensorDesc& rows) {
  return {.samples = rows.shape[0], .channels = rows.shape[1], .pixels = 1};
}

class ForwardKernel final : public CudaKernel {
 public:
  explicit ForwardKernel(const KernelRequest& request)
      : CudaKernel(request),
        op_(op_as<LinearForward>(request)),
        y_(request.out[0]),
        fused_(y_.dtype == DType::f32),
        matmul_(device(), {.rows = request.in[1].shape[0],
                           .columns = request.in[0].shape[0],
                           .inner = request.in[1].shape[1],
                           .a_type = request.in[1].dtype,
                           .a_transposed = true,
                           .b_type = request.in[0].dtype,
                           .d_type = y_.dtype,
                           .bias = fused_ && op_.bias,
                           .relu = fused_ && op_.relu,
                           .workspace_limit = request.scratch_limit}) {}

  std::size_t scratch_bytes() const override { return matmul_.workspace_bytes(); }
  std::string implementation() const override { return "cublaslt"; }

  void run(const StepContext&) override {
    matmul_.run({.a = in<void>(1),
                 .b = in<void>(0),
                 .d = out<void>(0),
                 .bias = fused_ && op_.bias ? in(2) : nullptr,
                 .workspace = scratch()});
    if (!fused_ && (op_.bias || op_.relu))
      launch_add_bias_relu({.device = &device(),
                            .view = rows_view(y_),
                            .dtype = y_.dtype,
                            .y = out<void>(0),
                            .bias = op_.bias ? in(2) : nullptr,
                            .relu = op_.relu});
  }

 private:
  LinearForward op_;
  TensorDesc y_;
  bool fused_;  // cuBLASLt adds a bias of the output's type only, and ours is f32
  CublasMatmul matmul_;
};

class BackwardDataKernel final : public CudaKernel {
 public:
  explicit BackwardDataKernel(const KernelRequest& request)
      : CudaKernel(request),
        matmul_(device(), {.rows = request.in[1].shape[1],
                           .columns = request.in[0].shape[0],
                           .inner = request.in[1].shape[0],
                           .a_type = request.in[1].dtype,
                           .b_type = request.in[0].dtype,
                           .d_type = request.out[0].dtype,
                           .workspace_limit = request.scratch_limit}) {}

  std::size_t scratch_bytes() const override { return matmul_.workspace_bytes(); }
  std::string implementation() const override { return "cublaslt"; }
  void run(const StepContext&) override {
    matmul_.run({.a = in<void>(1), .b = in<void>(0), .d = out<void>(0), .workspace = scratch()});
  }

 private:
  CublasMatmul matmul_;
};

class BackwardWeightsKernel final : public CudaKernel {
 public:
  explicit BackwardWeightsKernel(const KernelRequest& request)
      : CudaKernel(request),
        bias_(op_as<LinearBackwardWeights>(request).bias),
        dy_(request.in[1]),
        matmul_(device(), {.rows = request.in[0].shape[1],
                           .columns = request.in[1].shape[1],
                           .inner = request.in[0].shape[0],
                           .a_type = request.in[0].dtype,
                           .b_type = request.in[1].dtype,
                           .b_transposed = true,
                           .d_type = request.out[0].dtype,
                           .workspace_limit = request.scratch_limit}) {}

  std::size_t scratch_bytes() const override {
    return bias_offset() + (bias_ ? bias_gradient_scratch(rows_view(dy_)) : 0);
  }
  std::string implementation() const override { return "cublaslt"; }

  void run(const StepContext&) override {
    matmul_.run({.a = in<void>(0), .b = in<void>(1), .d = out<void>(0), .workspace = scratch()});
    if (bias_)
      launch_bias_gradient({.device = &device(),
                            .view = rows_view(dy_),
                            .dtype = dy_.dtype,
                            .dy = in<void>(1),
                            .scratch = scratch() + bias_offset(),
                            .dbias = out(1)});
  }

 private:
  std::size_t bias_offset() const { return (matmul_.workspace_bytes() + 255) / 256 * 256; }

  bool bias_;
  TensorDesc dy_;
  CublasMatmul matmul_;
};

const RegisterKernel register_linear_forward(cuda_backend(), "linear.forward", make_kernel<ForwardKernel>);
const RegisterKernel register_linear_backward_data(cuda_backend(), "linear.backward_data",
                                                   make_kernel<BackwardDataKernel>);
const RegisterKernel register_linear_backward_weights(cuda_backend(), "linear.backward_weights",
                                                      make_kernel<BackwardWeightsKernel>);

}  // namespace
}  // namespace trifold::cuda
