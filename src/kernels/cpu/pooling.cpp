// Pooling on the CPU: threads share the samples.
#include "kernels/ops/pooling.h"

#include "kernels/backend.h"
#include "kernels/cpu/channel_ops.h"
#include "kernels/cpu/simd/pooling_loops.h"

namespace trifold::cpu {
namespace {

PoolGeometry geometry_of(const PoolArgs& args, const TensorDesc& x, const TensorDesc& y) {
  return {.channels = x.shape[1],
          .blocked = x.layout.order == Order::channel_block,
          .in_height = x.shape[2],
          .in_width = x.shape[3],
          .out_height = y.shape[2],
          .out_width = y.shape[3],
          .kernel_height = args.kernel[0],
          .kernel_width = args.kernel[1],
          .stride_height = args.stride[0],
          .stride_width = args.stride[1],
          .pad_height = args.pad[0],
          .pad_width = args.pad[1]};
}

class MaxForwardKernel final : public Kernel {
 public:
  explicit MaxForwardKernel(const KernelRequest& request)
      : op_(op_as<MaxPoolForward>(request)),
        geometry_(geometry_of(op_.args, request.in[0], request.out[0])),
        batch_(request.in[0].shape[0]) {}

  void run(const StepContext&) override {
    const MaxPoolForwardArgs args{
        .geometry = geometry_, .x = in(0), .y = out(0), .argmax = op_.keep_argmax ? out<std::uint8_t>(1) : nullptr};
    parallel_for(batch_, [&](Range samples) { pooling_loops().max_pool_forward(args, samples); });
  }

 private:
  MaxPoolForward op_;
  PoolGeometry geometry_;
  std::int64_t batch_;
};

class MaxBackwardKernel final : public Kernel {
 public:
  explicit MaxBackwardKernel(const KernelRequest& request)
      : op_(op_as<MaxPoolBackward>(request)),
        geometry_(geometry_of(op_.args, request.out[0], request.in[0])),
        batch_(request.in[0].shape[0]) {}

  void run(const StepContext&) override {
    const MaxPoolBackwardArgs args{.geometry = geometry_,
                                   .dy = in(0),
                                   .argmax = in<std::uint8_t>(1),
                                   .y = op_.relu ? in(2) : nullptr,
                                   .dx = out(0)};
    parallel_for(batch_, [&](Range samples) { pooling_loops().max_pool_backward(args, samples); });
  }

 private:
  MaxPoolBackward op_;
  PoolGeometry geometry_;
  std::int64_t batch_;
};

class AvgForwardKernel final : public Kernel {
 public:
  explicit AvgForwardKernel(const KernelRequest& request)
      : op_(op_as<AvgPoolForward>(request)),
        geometry_(geometry_of(op_.args, request.in[0], request.out[0])),
        batch_(request.in[0].shape[0]) {}

  void run(const StepContext&) override {
    const AvgPoolForwardArgs args{.geometry = geometry_, .divisor = op_.divisor, .x = in(0), .y = out(0)};
    parallel_for(batch_, [&](Range samples) { pooling_loops().avg_pool_forward(args, samples); });
  }

 private:
  AvgPoolForward op_;
  PoolGeometry geometry_;
  std::int64_t batch_;
};

class AvgBackwardKernel final : public Kernel {
 public:
  explicit AvgBackwardKernel(const KernelRequest& request)
      : op_(op_as<AvgPoolBackward>(request)),
        geometry_(geometry_of(op_.args, request.out[0], request.in[0])),
        batch_(request.in[0].shape[0]) {}

  void run(const StepContext&) override {
    const AvgPoolBackwardArgs args{.geometry = geometry_, .divisor = op_.divisor, .dy = in(0), .dx = out(0)};
    parallel_for(batch_, [&](Range samples) { pooling_loops().avg_pool_backward(args, samples); });
  }

 private:
  AvgPoolBackward op_;
  PoolGeometry geometry_;
  std::int64_t batch_;
};

class GlobalForwardKernel final : public Kernel {
 public:
  explicit GlobalForwardKernel(const KernelRequest& request)
      : view_(view_of(request.in[0])),
        whole_pixels_(op_as<GlobalAvgPoolForward>(request).pixels),
        batch_(request.in[0].shape[0]) {
    if (whole_pixels_ == 0) whole_pixels_ = view_.pixels;
  }

  void run(const StepContext&) override {
    const GlobalAvgPoolForwardArgs args{.view = view_, .whole_pixels = whole_pixels_, .x = in(0), .y = out(0)};
    parallel_for(batch_, [&](Range samples) { pooling_loops().global_avg_pool_forward(args, samples); });
  }

 private:
  ChannelView view_;
  std::int64_t whole_pixels_;
  std::int64_t batch_;
};

class GlobalBackwardKernel final : public Kernel {
 public:
  explicit GlobalBackwardKernel(const KernelRequest& request)
      : view_(view_of(request.out[0])),
        whole_pixels_(op_as<GlobalAvgPoolBackward>(request).pixels),
        batch_(request.in[0].shape[0]) {
    if (whole_pixels_ == 0) whole_pixels_ = view_.pixels;
  }

  void run(const StepContext&) override {
    const GlobalAvgPoolBackwardArgs args{.view = view_, .whole_pixels = whole_pixels_, .dy = in(0), .dx = out(0)};
    parallel_for(batch_, [&](Range samples) { pooling_loops().global_avg_pool_backward(args, samples); });
  }

 private:
  ChannelView view_;
  std::int64_t whole_pixels_;
  std::int64_t batch_;
};

const RegisterKernel register_pooling_max_forward(cpu_backend(), "max_pool.forward", make_kernel<MaxForwardKernel>);
const RegisterKernel register_pooling_max_backward(cpu_backend(), "max_pool.backward", make_kernel<MaxBackwardKernel>);
const RegisterKernel register_pooling_avg_forward(cpu_backend(), "avg_pool.forward", make_kernel<AvgForwardKernel>);
const RegisterKernel register_pooling_avg_backward(cpu_backend(), "avg_pool.backward", make_kernel<AvgBackwardKernel>);
const RegisterKernel register_pooling_global_forward(cpu_backend(), "global_avg_pool.forward",
                                                     make_kernel<GlobalForwardKernel>);
const RegisterKernel register_pooling_global_backward(cpu_backend(), "global_avg_pool.backward",
                                                      make_kernel<GlobalBackwardKernel>);

}  // namespace
}  // namespace trifold::cpu
