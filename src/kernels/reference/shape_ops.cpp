// Add, concat, split and reorder. Reorder is the one op here that knows layouts: it moves between any two of them.
#include "kernels/ops/shape_ops.h"

#include <algorithm>
#include <cstring>

#include "kernels/backend.h"
#include "kernels/reference/element_type.h"

namespace trifold::reference {
namespace {

template <class T>
class AddKernel final : public Kernel {
 public:
  explicit AddKernel(const KernelRequest& request)
      : relu_(op_as<Add>(request).relu), elements_(request.out[0].elements()) {}

  void run(const StepContext&) override {
    for (std::int64_t i = 0; i < elements_; ++i) {
      const T sum = in<T>(0)[i] + in<T>(1)[i];
      out<T>(0)[i] = relu_ ? std::max(T{0}, sum) : sum;
    }
  }

 private:
  bool relu_;
  std::int64_t elements_;
};

// A run of channels of `whole` that lies in `part`.
struct ChannelRun {
  std::int64_t batch = 0;
  std::int64_t whole_row = 0;  // elements a sample
  std::int64_t part_row = 0;
  std::int64_t begin = 0;  // of the part in the whole's row

  ChannelRun(const Shape& whole, const Shape& part, std::int64_t first_channel)
      : batch(whole.batch()),
        whole_row(whole.channels() * whole.pixels()),
        part_row(part.channels() * part.pixels()),
        begin(first_channel * whole.pixels()) {}
};

template <class T>
class ConcatKernel final : public Kernel {
 public:
  explicit ConcatKernel(const KernelRequest& request) {
    std::int64_t first_channel = 0;
    for (const TensorDesc& part : request.in) {
      runs_.emplace_back(request.out[0].shape, part.shape, first_channel);
      first_channel += part.shape.channels();
    }
  }

  void run(const StepContext&) override {
    for (std::size_t k = 0; k < runs_.size(); ++k) {
      const ChannelRun& r = runs_[k];
      for (std::int64_t n = 0; n < r.batch; ++n)
        std::copy_n(in<T>(k) + n * r.part_row, r.part_row, out<T>(0) + n * r.whole_row + r.begin);
    }
  }

 private:
  std::vector<ChannelRun> runs_;
};

template <class T>
class SplitChannelsKernel final : public Kernel {
 public:
  explicit SplitChannelsKernel(const KernelRequest& request) {
    const auto& first_channel = op_as<SplitChannels>(request).first_channel;
    for (std::size_t k = 0; k < request.out.size(); ++k)
      runs_.emplace_back(request.in[0].shape, request.out[k].shape, first_channel[k]);
  }

  void run(const StepContext&) override {
    for (std::size_t k = 0; k < runs_.size(); ++k) {
      const ChannelRun& r = runs_[k];
      for (std::int64_t n = 0; n < r.batch; ++n)
        std::copy_n(in<T>(0) + n * r.whole_row + r.begin, r.part_row, out<T>(k) + n * r.part_row);
    }
  }

 private:
  std::vector<ChannelRun> runs_;
};

class ReorderKernel final : public Kernel {
 public:
  explicit ReorderKernel(const KernelRequest& request) : from_(request.in[0]), to_(request.out[0]) {}

  void run(const StepContext&) override {
    const std::size_t size = size_of(from_.dtype);
    for (std::int64_t i = 0; i < from_.elements(); ++i) {
      const auto source = static_cast<std::size_t>(offset_in(from_.layout, from_.shape, i));
      const auto target = static_cast<std::size_t>(offset_in(to_.layout, to_.shape, i));
      std::memcpy(out<std::byte>(0) + target * size, in<std::byte>(0) + source * size, size);
    }
  }

 private:
  TensorDesc from_;
  TensorDesc to_;
};

const RegisterKernel register_shape_ops_add(reference_backend(), "add",
                                            make_for_type<AddKernel<float>, AddKernel<double>>);
const RegisterKernel register_shape_ops_concat(reference_backend(), "concat",
                                               make_for_type<ConcatKernel<float>, ConcatKernel<double>>);
const RegisterKernel register_shape_ops_split_channels(
    reference_backend(), "split_channels", make_for_type<SplitChannelsKernel<float>, SplitChannelsKernel<double>>);
const RegisterKernel register_shape_ops_reorder(reference_backend(), "reorder", make_kernel<ReorderKernel>);

}  // namespace
}  // namespace trifold::reference
