// Element-wise functions on the CPU: flat loops, so any layout will do as long as all tensors share it.
#include "kernels/ops/activation.h"

#include "kernels/backend.h"
#include "kernels/cpu/simd/activation_loops.h"

namespace trifold::cpu {
namespace {

constexpr std::int64_t kGrain = 64;  // elements: threads do not share a cache line

class ForwardKernel final : public Kernel {
 public:
  explicit ForwardKernel(const KernelRequest& request)
      : op_(op_as<ActivationForward>(request)),
        loop_(activation_loops().forward[static_cast<std::size_t>(op_.function)]),
        elements_(request.in[0].elements()) {}

  void run(const StepContext&) override {
    const ActivationForwardArgs args{.x = in(0), .y = out(0), .parameters = op_.parameters.data()};
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
        loop_(activation_loops().backward[static_cast<std::size_t>(op_.function)]),
        elements_(request.in[0].elements()) {}

  void run(const StepContext&) override {
    const ActivationBackwardArgs args{.dy = in(0), .saved = in(1), .dx = out(0), .parameters = op_.parameters.data()};
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
