// Dropout on the CPU: the same random numbers forward and backward, drawn where they are used.
#include "kernels/ops/dropout.h"

#include "kernels/backend.h"
#include "kernels/cpu/channel_ops.h"
#include "kernels/cpu/simd/dropout_loops.h"

namespace trifold::cpu {
namespace {

// Forward multiplies x, backward dy; `gate` is forward's y where a fused relu has to be undone.
class DropoutKernel : public Kernel {
 public:
  DropoutKernel(const KernelRequest& request, const trifold::DropoutArgs& args)
      : args_(args), view_(view_of(request.in[0])), batch_(request.in[0].shape.batch()) {}

  std::size_t scratch_bytes() const override {
    return args_.channels ? static_cast<std::size_t>(batch_ * view_.channels) * sizeof(float) : 0;
  }

 protected:
  void drop(const StepContext& context, bool relu, const float* gate) {
    const DropoutStream stream{.seed = context.seed,
                               .layer = args_.layer,
                               .first_sample = static_cast<std::uint64_t>(context.first_sample),
                               .probability = static_cast<float>(args_.probability),
                               .first_channel = static_cast<std::uint32_t>(args_.first_channel),
                               .first_pixel = static_cast<std::uint32_t>(args_.first_pixel),
                               .whole_channels = static_cast<std::uint32_t>(args_.whole_channels)};
    float* factors = reinterpret_cast<float*>(scratch());
    parallel_for(batch_, [&](Range samples) {
      if (args_.channels) {
        dropout_loops().channel_factors({view_.channels, stream, factors}, samples);
        dropout_loops().channel_dropout({view_, factors, in(0), out(0), relu, gate}, samples);
      } else {
        dropout_loops().dropout({view_, stream, in(0), out(0), relu, gate}, samples);
      }
    });
  }

 private:
  trifold::DropoutArgs args_;
  ChannelView view_;
  std::int64_t batch_;
};

class DropoutForwardKernel final : public DropoutKernel {
 public:
  explicit DropoutForwardKernel(const KernelRequest& request)
      : DropoutKernel(request, op_as<DropoutForward>(request).args), relu_(op_as<DropoutForward>(request).relu) {}
  void run(const StepContext& context) override { drop(context, relu_, nullptr); }

 private:
  bool relu_;
};

class DropoutBackwardKernel final : public DropoutKernel {
 public:
  explicit DropoutBackwardKernel(const KernelRequest& request)
      : DropoutKernel(request, op_as<DropoutBackward>(request).args), relu_(op_as<DropoutBackward>(request).relu) {}
  void run(const StepContext& context) override { drop(context, false, relu_ ? in(1) : nullptr); }

 private:
  bool relu_;
};

const RegisterKernel register_dropout_forward(cpu_backend(), "dropout.forward", make_kernel<DropoutForwardKernel>);
const RegisterKernel register_dropout_backward(cpu_backend(), "dropout.backward", make_kernel<DropoutBackwardKernel>);

}  // namespace
}  // namespace trifold::cpu
