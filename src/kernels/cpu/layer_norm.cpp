// Layer norm on the CPU: threads share the places. The gradients of the parameters are summed by all threads, each over
// its samples, and added in thread order.
#include "kernels/ops/layer_norm.h"

#include "kernels/backend.h"
#include "kernels/cpu/channel_ops.h"
#include "kernels/cpu/simd/isa.h"
#include "kernels/cpu/simd/layer_norm_loops.h"

TRIFOLD_DISPATCH(LayerNormLoops, layer_norm_loops)

namespace trifold::cpu {
namespace {

// A thread's share: whole cache lines of a plain image's rows, but where samples have fewer places than that.
std::int64_t places_grain(const ChannelView& view) {
  constexpr std::int64_t kFloatsOfALine = 16;
  return view.blocked || view.pixels < kFloatsOfALine ? 1 : kFloatsOfALine;
}

class LayerNormForwardKernel final : public Kernel {
 public:
  explicit LayerNormForwardKernel(const KernelRequest& request)
      : op_(op_as<LayerNormForward>(request)),
        view_(view_of(request.in[0])),
        places_(request.in[0].shape.batch() * view_.pixels) {}

  void run(const StepContext&) override {
    const LayerNormForwardArgs args{.view = view_,
                                    .eps = static_cast<float>(op_.eps),
                                    .x = in(0),
                                    .weight = in(1),
                                    .bias = in(2),
                                    .y = out(0),
                                    .mean = op_.keep_statistics ? out(1) : nullptr,
                                    .istd = op_.keep_statistics ? out(2) : nullptr};
    parallel_for(
        places_, [&](Range places) { layer_norm_loops().forward(args, places); }, places_grain(view_));
  }

 private:
  LayerNormForward op_;
  ChannelView view_;
  std::int64_t places_;
};

class LayerNormBackwardInputKernel final : public Kernel {
 public:
  explicit LayerNormBackwardInputKernel(const KernelRequest& request)
      : view_(view_of(request.in[1])), places_(request.in[1].shape.batch() * view_.pixels) {}

  void run(const StepContext&) override {
    const LayerNormBackwardInputArgs args{
        .view = view_, .dy = in(0), .x = in(1), .mean = in(2), .istd = in(3), .weight = in(4), .dx = out(0)};
    parallel_for(
        places_, [&](Range places) { layer_norm_loops().backward_input(args, places); }, places_grain(view_));
  }

 private:
  ChannelView view_;
  std::int64_t places_;
};

class LayerNormBackwardParametersKernel final : public Kernel {
 public:
  explicit LayerNormBackwardParametersKernel(const KernelRequest& request)
      : view_(view_of(request.in[1])),
        samples_(request.in[1].shape.batch()),
        sums_(2 * view_.channels, request.threads) {}

  std::size_t scratch_bytes() const override { return sums_.bytes(); }

  void run(const StepContext&) override {
    int threads_used = 1;
    parallel([&](int thread, int threads) {
      double* sums = sums_.clear(scratch(), thread);
      layer_norm_loops().backward_parameters({.view = view_,
                                              .dy = in(0),
                                              .x = in(1),
                                              .mean = in(2),
                                              .istd = in(3),
                                              .dweight = sums,
                                              .dbias = sums + view_.channels},
                                             share(samples_, thread, threads));
      if (thread == 0) threads_used = threads;
    });
    for (std::int64_t c = 0; c < view_.channels; ++c) {
      out(0)[c] = static_cast<float>(sums_.total(scratch(), c, threads_used));
      out(1)[c] = static_cast<float>(sums_.total(scratch(), view_.channels + c, threads_used));
    }
  }

 private:
  ChannelView view_;
  std::int64_t samples_;
  ThreadSums sums_;
};

const RegisterKernel register_layer_norm_forward(cpu_backend(), "layer_norm.forward",
                                                 make_kernel<LayerNormForwardKernel>);
const RegisterKernel register_layer_norm_backward_input(cpu_backend(), "layer_norm.backward_input",
                                                        make_kernel<LayerNormBackwardInputKernel>);
const RegisterKernel register_layer_norm_backward_parameters(cpu_backend(), "layer_norm.backward_parameters",
                                                             make_kernel<LayerNormBackwardParametersKernel>);

}  // namespace
}  // namespace trifold::cpu
