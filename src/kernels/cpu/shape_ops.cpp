// Add, concat and its inverse on the CPU. (Reorder is in reorder.cpp.)
#include "kernels/ops/shape_ops.h"

#include "kernels/backend.h"
#include "kernels/cpu/channel_ops.h"
#include "kernels/cpu/simd/element_loops.h"
#include "kernels/cpu/simd/layout_loops.h"

namespace trifold::cpu {
namespace {

class AddKernel final : public Kernel {
 public:
  explicit AddKernel(const KernelRequest& request)
      : relu_(op_as<Add>(request).relu), view_(view_of(request.in[0])), batch_(request.in[0].shape.batch()) {}

  void run(const StepContext&) override {
    const AddArgs args{.view = view_, .a = in(0), .b = in(1), .relu = relu_, .y = out(0)};
    parallel_for(batch_, [&](Range samples) { element_loops().add(args, samples); });
  }

 private:
  bool relu_;
  ChannelView view_;
  std::int64_t batch_;
};

class ConcatKernel final : public Kernel {
 public:
  explicit ConcatKernel(const KernelRequest& request)
      : batch_(request.out[0].shape.batch()),
        pixels_(request.out[0].shape.pixels()),
        total_(request.out[0].shape.channels()) {
    for (const TensorDesc& part : request.in) channels_.push_back(part.shape.channels());
  }

  void run(const StepContext&) override {
    parallel_for(batch_, [&](Range samples) {
      std::int64_t first = 0;
      for (std::size_t i = 0; i < channels_.size(); ++i) {
        layout_loops().copy_channels({pixels_, channels_[i], in(i), channels_[i], 0, out(0), total_, first}, samples);
        first += channels_[i];
      }
    });
  }

 private:
  std::int64_t batch_;
  std::int64_t pixels_;
  std::int64_t total_;
  std::vector<std::int64_t> channels_;
};

class SplitKernel final : public Kernel {
 public:
  explicit SplitKernel(const KernelRequest& request)
      : op_(op_as<SplitChannels>(request)),
        batch_(request.in[0].shape.batch()),
        pixels_(request.in[0].shape.pixels()),
        total_(request.in[0].shape.channels()) {
    for (const TensorDesc& part : request.out) channels_.push_back(part.shape.channels());
  }

  void run(const StepContext&) override {
    parallel_for(batch_, [&](Range samples) {
      for (std::size_t i = 0; i < channels_.size(); ++i)
        layout_loops().copy_channels(
            {pixels_, channels_[i], in(0), total_, op_.first_channel[i], out(i), channels_[i], 0}, samples);
    });
  }

 private:
  SplitChannels op_;
  std::int64_t batch_;
  std::int64_t pixels_;
  std::int64_t total_;
  std::vector<std::int64_t> channels_;
};

const RegisterKernel register_shape_ops_add(cpu_backend(), "add", make_kernel<AddKernel>);
const RegisterKernel register_shape_ops_concat(cpu_backend(), "concat", make_kernel<ConcatKernel>);
const RegisterKernel register_shape_ops_split(cpu_backend(), "split_channels", make_kernel<SplitKernel>);

}  // namespace
}  // namespace trifold::cpu
