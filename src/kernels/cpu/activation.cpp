// Element-wise functions on the CPU: flat loops, so any layout will do as long as all tensors share it.
#include "kernels/ops/activation.h"

#include "kernels/backend.h"
#include "kernels/cpu/simd/activation_loops.h"

namespace trifold::cpu {
namespace {

ActivationLoops::Forward forward_loop(Activation function) {
  const ActivationLoops& loops = activation_loops();
  switch (function) {
    case Activation::relu:
      return loops.relu;
    case Activation::leaky_relu:
      return loops.leaky_relu;
    case Activation::gelu:
      return loops.gelu;
    case Activation::sigmoid:
      return loops.sigmoid;
    case Activation::tanh:
      return loops.tanh;
  }
  return nullptr;
}

ActivationLoops::Backward backward_loop(Activation function) {
  const ActivationLoops& loops = activation_loops();
  switch (function) {
    case Activation::relu:
      return loops.relu_backward;
    case Activation::leaky_relu:
      return loops.leaky_relu_backward;
    case Activation::gelu:
      return loops.gelu_backward;
    case Activation::sigmoid:
      return loops.sigmoid_backward;
    case Activation::tanh:
      return loops.tanh_backward;
  }
  return nullptr;
}

constexpr std::int64_t kGrain = 64;  // elements: threads do not share a cache line

class ForwardKernel final : public Kernel {
 public:
  explicit ForwardKernel(const KernelRequest& request)
      : op_(op_as<ActivationForward>(request)),
        loop_(forward_loop(op_.function)),
        elements_(request.in[0].elements()) {}

  void run(const StepContext&) override {
    const ActivationForwardArgs args{.x = in(0), .y = out(0), .slope = static_cast<float>(op_.slope)};
    parallel_for(
        elements_, [&](Range range) { loop_(args, range); }, kGrain);
  }

 private:
  ActivationForward op_;
  ActivationLoops::Forward loop_;
  std::int64_t elements_;
};

class BackwardKernel final : public Kernel {
 public:
  explicit BackwardKernel(const KernelRequest& request)
      : op_(op_as<ActivationBackward>(request)),
        loop_(backward_loop(op_.function)),
        elements_(request.in[0].elements()) {}

  void run(const StepContext&) override {
    const ActivationBackwardArgs args{
        .dy = in(0), .saved = in(1), .dx = out(0), .slope = static_cast<float>(op_.slope)};
    parallel_for(
        elements_, [&](Range range) { loop_(args, range); }, kGrain);
  }

 private:
  ActivationBackward op_;
  ActivationLoops::Backward loop_;
  std::int64_t elements_;
};

const RegisterKernel register_activation_forward(cpu_backend(), "activation.forward", make_kernel<ForwardKernel>);
const RegisterKernel register_activation_backward(cpu_backend(), "activation.backward", make_kernel<BackwardKernel>);

}  // namespace
}  // namespace trifold::cpu
