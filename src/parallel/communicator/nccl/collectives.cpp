// The collectives among all ranks of an axis, as work of the compute stream.
#include "parallel/communicator/nccl/nccl_kernel.h"
#include "parallel/communicator/nccl/ordered_sum.h"

namespace trifold::cuda {
namespace {

class AllReduceKernel final : public NcclKernel {
 public:
  explicit AllReduceKernel(const KernelRequest& request)
      : NcclKernel(request, op_as<AllReduce>(request).axis),
        span_(op_as<AllReduce>(request).span),
        elements_(static_cast<std::size_t>(request.in[0].elements())) {
    TRIFOLD_CHECK(request.in[0].dtype == DType::f32, "all_reduce of {}", name_of(request.in[0].dtype));
    if (op_as<AllReduce>(request).aside) written_ = make_event();
    if (span_ > 0) gathered_ = elements_ * static_cast<std::size_t>(op_as<AllReduce>(request).ranks);
  }

  std::size_t scratch_bytes() const override { return gathered_ * sizeof(float); }

  void run(const StepContext&) override {
    if (span_ > 0) return add_up_span();
    if (written_) return add_up_aside();
    if (out(0) != in(0))
      TRIFOLD_CUDA(cudaMemcpyAsync(out(0), in(0), elements_ * sizeof(float), cudaMemcpyDeviceToDevice, stream()));
    link().all_reduce({out(0), elements_}, stream());
  }

 private:
  // A few numbers of each channel: gathering them all costs less than links of their own.
  void add_up_span() {
    link().all_gather(std::as_bytes(std::span(in(0), elements_)), scratch(), stream());
    const auto elements = static_cast<std::int64_t>(elements_);
    const int first = rank() / span_ * span_;
    terms_.clear();
    for (int other = first; other < first + span_; ++other)
      terms_.push_back({.from = scratch() + static_cast<std::size_t>(other) * elements_ * sizeof(float),
                        .from_run = elements,
                        .begin = 0,
                        .end = elements});
    sum_in_order({.terms = terms_, .run_elements = elements, .to = out<std::byte>(0)}, device());
  }

  void add_up_aside() {
    TRIFOLD_CUDA(cudaEventRecord(written_.get(), stream()));
    TRIFOLD_CUDA(cudaStreamWaitEvent(device().communication(), written_.get(), 0));
    groups().for_gradients().all_reduce({out(0), elements_}, device().communication());
  }

  int span_;
  std::size_t elements_;
  std::size_t gathered_ = 0;  // elements of all ranks
  std::vector<SumTerm> terms_;
  Event written_;  // of a sum that is made aside
};

class JoinSumsKernel final : public NcclKernel {
 public:
  explicit JoinSumsKernel(const KernelRequest& request)
      : NcclKernel(request, op_as<JoinSums>(request).axis), summed_(make_event()) {}

  void run(const StepContext&) override {
    TRIFOLD_CUDA(cudaEventRecord(summed_.get(), device().communication()));
    TRIFOLD_CUDA(cudaStreamWaitEvent(stream(), summed_.get(), 0));
  }

 private:
  Event summed_;
};

class AllGatherKernel final : public NcclKernel {
 public:
  explicit AllGatherKernel(const KernelRequest& request)
      : NcclKernel(request, op_as<AllGather>(request).axis), part_bytes_(request.in[0].bytes()) {}

  void run(const StepContext&) override {
    link().all_gather({in<std::byte>(0), part_bytes_}, out<std::byte>(0), stream());
  }

 private:
  std::size_t part_bytes_;
};

class ReduceScatterKernel final : public NcclKernel {
 public:
  explicit ReduceScatterKernel(const KernelRequest& request)
      : NcclKernel(request, op_as<ReduceScatter>(request).axis),
        part_(static_cast<std::size_t>(request.out[0].elements())) {}

  void run(const StepContext&) override { link().reduce_scatter(in(0), {out(0), part_}, stream()); }

 private:
  std::size_t part_;
};

class GatherChannelsKernel final : public NcclKernel {
 public:
  explicit GatherChannelsKernel(const KernelRequest& request)
      : NcclKernel(request, op_as<GatherChannels>(request).axis),
        samples_(static_cast<std::size_t>(request.in[0].shape[0])),
        part_bytes_(request.in[0].bytes()),
        all_bytes_(request.out[0].bytes()) {}

  std::size_t scratch_bytes() const override { return all_bytes_; }

  // Row-major, so a rank's part of a sample is one piece.
  void run(const StepContext&) override {
    link().all_gather({in<std::byte>(0), part_bytes_}, scratch(), stream());
    const std::size_t piece = part_bytes_ / samples_;
    const std::size_t ranks = all_bytes_ / part_bytes_;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      TRIFOLD_CUDA(cudaMemcpy2DAsync(out<std::byte>(0) + rank * piece, ranks * piece, scratch() + rank * part_bytes_,
                                     piece, piece, samples_, cudaMemcpyDeviceToDevice, stream()));
  }

 private:
  std::size_t samples_, part_bytes_, all_bytes_;
};

const RegisterKernel register_collectives_all_reduce(cuda_backend(), "all_reduce", make_kernel<AllReduceKernel>);
const RegisterKernel register_collectives_join_sums(cuda_backend(), "join_sums", make_kernel<JoinSumsKernel>);
const RegisterKernel register_collectives_all_gather(cuda_backend(), "all_gather", make_kernel<AllGatherKernel>);
const RegisterKernel register_collectives_reduce_scatter(cuda_backend(), "reduce_scatter",
                                                         make_kernel<ReduceScatterKernel>);
const RegisterKernel register_collectives_gather_channels(cuda_backend(), "gather_channels",
                                                          make_kernel<GatherChannelsKernel>);

}  // namespace
}  // namespace trifold::cuda
