// Collectives as kernels of the backends whose memory is the host's: each hands its tensors to the communicator of its
// axis. A program that is only looked at may be compiled without ranks.
#include <algorithm>
#include <optional>

#include "core/error.h"
#include "kernels/backend.h"
#include "parallel/rank_groups.h"

namespace trifold {
namespace {

class CollectiveKernel : public Kernel {
 public:
  CollectiveKernel(const KernelRequest& request, Axis axis) : ranks_(request.ranks), axis_(axis) {}

  std::string implementation() const override { return name_of(axis_); }

 protected:
  const RankGroups& ranks() const {
    TRIFOLD_CHECK(ranks_ != nullptr, "the program was compiled without its ranks");
    return *ranks_;
  }
  Communicator& group() const { return ranks().along(axis_); }

 private:
  const RankGroups* ranks_;
  Axis axis_;
};

class AllReduceKernel final : public CollectiveKernel {
 public:
  explicit AllReduceKernel(const KernelRequest& request)
      : CollectiveKernel(request, op_as<AllReduce>(request).axis),
        span_(op_as<AllReduce>(request).span),
        aside_(op_as<AllReduce>(request).aside),
        elements_(static_cast<std::size_t>(request.in[0].elements())) {
    TRIFOLD_CHECK(request.in[0].dtype == DType::f32, "all_reduce of {}", name_of(request.in[0].dtype));
    TRIFOLD_CHECK(!aside_ || (span_ == 0 && op_as<AllReduce>(request).axis == Axis::data),
                  "gradients of all replicas are added up aside, and nothing else");
    if (span_ > 0) gathered_ = elements_ * static_cast<std::size_t>(op_as<AllReduce>(request).ranks);
  }

  std::size_t scratch_bytes() const override { return gathered_ * sizeof(float); }

  void run(const StepContext&) override {
    if (span_ > 0) return add_up_span();
    if (out(0) != in(0)) std::copy_n(in(0), elements_, out(0));
    const Ticket ticket = group().all_reduce({out(0), elements_});
    if (aside_)
      ranks().overlap_reduction().push_back(ticket);
    else
      group().wait(ticket);
  }

 private:
  void add_up_span() {
    const std::span<float> all(reinterpret_cast<float*>(scratch()), gathered_);
    const std::span<const float> mine(in(0), elements_);
    group().wait(group().all_gather(std::as_bytes(mine), std::as_writable_bytes(all)));
    const auto first = static_cast<std::size_t>(group().rank() / span_ * span_);
    std::copy_n(all.data() + first * elements_, elements_, out(0));
    for (std::size_t rank = first + 1; rank < first + static_cast<std::size_t>(span_); ++rank)
      for (std::size_t i = 0; i < elements_; ++i) out(0)[i] += all[rank * elements_ + i];
  }

  int span_;
  bool aside_;
  std::size_t elements_;
  std::size_t gathered_ = 0;  // elements of all ranks
};

class JoinSumsKernel final : public CollectiveKernel {
 public:
  explicit JoinSumsKernel(const KernelRequest& request) : CollectiveKernel(request, Axis::data) {}

  void run(const StepContext&) override {
    for (const Ticket& ticket : ranks().overlap_reduction()) group().wait(ticket);
    ranks().overlap_reduction().clear();
  }
};

class AllGatherKernel final : public CollectiveKernel {
 public:
  explicit AllGatherKernel(const KernelRequest& request)
      : CollectiveKernel(request, op_as<AllGather>(request).axis),
        part_bytes_(request.in[0].bytes()),
        all_bytes_(request.out[0].bytes()) {}

  void run(const StepContext&) override {
    group().wait(group().all_gather({in<std::byte>(0), part_bytes_}, {out<std::byte>(0), all_bytes_}));
  }

 private:
  std::size_t part_bytes_, all_bytes_;
};

class ReduceScatterKernel final : public CollectiveKernel {
 public:
  explicit ReduceScatterKernel(const KernelRequest& request)
      : CollectiveKernel(request, op_as<ReduceScatter>(request).axis),
        all_(static_cast<std::size_t>(request.in[0].elements())),
        part_(static_cast<std::size_t>(request.out[0].elements())) {}

  void run(const StepContext&) override { group().wait(group().reduce_scatter({in(0), all_}, {out(0), part_})); }

 private:
  std::size_t all_, part_;
};

class GatherChannelsKernel final : public CollectiveKernel {
 public:
  explicit GatherChannelsKernel(const KernelRequest& request)
      : CollectiveKernel(request, op_as<GatherChannels>(request).axis),
        samples_(static_cast<std::size_t>(request.in[0].shape[0])),
        part_bytes_(request.in[0].bytes()),
        all_bytes_(request.out[0].bytes()) {}

  std::size_t scratch_bytes() const override { return all_bytes_; }

  // A sample's channels lie together in every layout, so a rank's part of a sample is one piece.
  void run(const StepContext&) override {
    group().wait(group().all_gather({in<std::byte>(0), part_bytes_}, {scratch(), all_bytes_}));
    const std::size_t piece = part_bytes_ / samples_;
    const std::size_t ranks = all_bytes_ / part_bytes_;
    for (std::size_t sample = 0; sample < samples_; ++sample)
      for (std::size_t rank = 0; rank < ranks; ++rank)
        std::copy_n(scratch() + rank * part_bytes_ + sample * piece, piece,
                    out<std::byte>(0) + (sample * ranks + rank) * piece);
  }

 private:
  std::size_t samples_, part_bytes_, all_bytes_;
};

class SendKernel final : public CollectiveKernel {
 public:
  explicit SendKernel(const KernelRequest& request)
      : CollectiveKernel(request, Axis::pipeline),
        op_(op_as<Send>(request)),
        bytes_(request.in[0].bytes()),
        place_bytes_((bytes_ + 63) / 64 * 64),
        in_copies_(static_cast<std::size_t>(op_.copies)) {}

  std::size_t lasting_bytes() const override { return in_copies_.size() * place_bytes_; }

  void run(const StepContext&) override {
    if (in_copies_.empty()) {
      from_places_.push_back({in<std::byte>(0), send(in<std::byte>(0))});
      return;
    }
    std::optional<Ticket>& before = in_copies_[next_copy_];
    if (before) group().wait(*before);
    std::byte* copy = scratch() + next_copy_ * place_bytes_;
    std::copy_n(in<std::byte>(0), bytes_, copy);
    before = send(copy);
    next_copy_ = (next_copy_ + 1) % in_copies_.size();
  }

  void settle() override {
    const auto mine = [&](const Message& message) { return message.memory == in<std::byte>(0); };
    for (const Message& message : from_places_)
      if (mine(message)) group().wait(message.ticket);
    std::erase_if(from_places_, mine);
  }

 private:
  struct Message {
    const std::byte* memory;
    Ticket ticket;
  };
  Ticket send(const std::byte* from) const { return group().send({from, bytes_}, op_.stage, op_.tag); }

  Send op_;
  std::size_t bytes_, place_bytes_;
  std::vector<Message> from_places_;              // on their way: at most one a slot
  std::vector<std::optional<Ticket>> in_copies_;  // on their way, by copy
  std::size_t next_copy_ = 0;
};

class ReceiveKernel final : public CollectiveKernel {
 public:
  explicit ReceiveKernel(const KernelRequest& request)
      : CollectiveKernel(request, Axis::pipeline), op_(op_as<Receive>(request)), bytes_(request.out[0].bytes()) {}

  void run(const StepContext&) override {
    group().wait(group().receive({out<std::byte>(0), bytes_}, op_.stage, op_.tag));
  }

 private:
  Receive op_;
  std::size_t bytes_;
};

const RegisterKernel register_collective_kernels_cpu_all_reduce(cpu_backend(), "all_reduce",
                                                                make_kernel<AllReduceKernel>);
const RegisterKernel register_collective_kernels_cpu_join_sums(cpu_backend(), "join_sums", make_kernel<JoinSumsKernel>);
const RegisterKernel register_collective_kernels_cpu_all_gather(cpu_backend(), "all_gather",
                                                                make_kernel<AllGatherKernel>);
const RegisterKernel register_collective_kernels_cpu_reduce_scatter(cpu_backend(), "reduce_scatter",
                                                                    make_kernel<ReduceScatterKernel>);
const RegisterKernel register_collective_kernels_cpu_gather_channels(cpu_backend(), "gather_channels",
                                                                     make_kernel<GatherChannelsKernel>);
const RegisterKernel register_collective_kernels_cpu_send(cpu_backend(), "send", make_kernel<SendKernel>);
const RegisterKernel register_collective_kernels_cpu_receive(cpu_backend(), "receive", make_kernel<ReceiveKernel>);
const RegisterKernel reference_all_reduce(reference_backend(), "all_reduce", make_kernel<AllReduceKernel>);
const RegisterKernel reference_join_sums(reference_backend(), "join_sums", make_kernel<JoinSumsKernel>);
const RegisterKernel reference_all_gather(reference_backend(), "all_gather", make_kernel<AllGatherKernel>);
const RegisterKernel reference_reduce_scatter(reference_backend(), "reduce_scatter", make_kernel<ReduceScatterKernel>);
const RegisterKernel reference_gather_channels(reference_backend(), "gather_channels",
                                               make_kernel<GatherChannelsKernel>);
const RegisterKernel reference_send(reference_backend(), "send", make_kernel<SendKernel>);
const RegisterKernel reference_receive(reference_backend(), "receive", make_kernel<ReceiveKernel>);

}  // namespace
}  // namespace trifold
