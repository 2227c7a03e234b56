// Gradients of replicas added up with fewer bytes, or seldom, as work of the compute stream. What compression leaves
// unsaid comes first in the kernel's own memory.
#include "kernels/ops/gradient_exchange.h"

#include <utility>

#include "core/philox.h"
#include "kernels/cuda/top_k.h"
#include "parallel/communicator/nccl/nccl_kernel.h"
#include "parallel/communicator/nccl/ordered_sum.h"
#include "parallel/data/cuda/gradient_passes.h"
#include "parallel/data/cuda/low_rank.h"

namespace trifold::cuda {
namespace {

std::size_t in_lines(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

class GradientExchangeKernel : public NcclKernel {
 public:
  explicit GradientExchangeKernel(const KernelRequest& request)
      : NcclKernel(request, op_as<GradientExchange>(request).axis),
        size_(op_as<GradientExchange>(request).ranks),
        elements_(request.in[0].elements()) {}

 protected:
  int size() const { return size_; }
  std::int64_t elements() const { return elements_; }
  std::size_t float_bytes() const { return static_cast<std::size_t>(elements_) * sizeof(float); }

 private:
  int size_;
  std::int64_t elements_;
};

// The parts go between ranks by single messages: NCCL's own sum of 16-bit numbers would round at every rank it passes.
class HalfAllReduceKernel final : public GradientExchangeKernel {
 public:
  explicit HalfAllReduceKernel(const KernelRequest& request)
      : GradientExchangeKernel(request),
        wire_(op_as<HalfAllReduce>(request).wire),
        part_((elements() + size() - 1) / size()) {
    part_ = (part_ + 7) / 8 * 8;  // packs of 16 bytes
  }

  // This rank's numbers, and the terms of its part.
  std::size_t scratch_bytes() const override { return 2 * in_lines(all_bytes()); }

  void run(const StepContext&) override {
    std::byte* const mine = scratch();
    std::byte* const terms = scratch() + in_lines(all_bytes());
    const int self = rank();
    const auto at = [&](std::byte* parts, int owner) { return parts + static_cast<std::size_t>(owner) * part_bytes(); };
    round_to_half(wire_, in(0), mine, elements(), part_ * size(), device());
    outgoing_.clear();
    incoming_.clear();
    terms_.clear();
    for (int other = 0; other < size(); ++other) {
      terms_.push_back(
          {.from = other == self ? at(mine, self) : at(terms, other), .from_run = part_, .begin = 0, .end = part_});
      if (other == self) continue;
      outgoing_.push_back({other, {at(mine, other), part_bytes()}});
      incoming_.push_back({other, {at(terms, other), part_bytes()}});
    }
    link().exchange(outgoing_, incoming_, stream());
    sum_in_order({.dtype = wire_, .terms = terms_, .run_elements = part_, .to = at(mine, self)}, device());
    link().all_gather({at(mine, self), part_bytes()}, mine, stream());
    widen_half(wire_, mine, out(0), elements(), device());
  }

 private:
  std::size_t part_bytes() const { return static_cast<std::size_t>(part_) * sizeof(std::uint16_t); }
  std::size_t all_bytes() const { return static_cast<std::size_t>(size()) * part_bytes(); }

  DType wire_;
  std::int64_t part_;  // that a rank adds up
  std::vector<NcclLink::Outgoing> outgoing_;
  std::vector<NcclLink::Incoming> incoming_;
  std::vector<SumTerm> terms_;
};

class TopKAllReduceKernel final : public GradientExchangeKernel {
 public:
  explicit TopKAllReduceKernel(const KernelRequest& request)
      : GradientExchangeKernel(request), keep_(op_as<TopKAllReduce>(request).keep), top_k_(device(), elements()) {
    TRIFOLD_CHECK(keep_ > 0 && keep_ <= elements(), "{} of {} gradients", keep_, elements());
  }

  std::size_t lasting_bytes() const override {
    return in_lines(float_bytes()) + in_lines(top_k_.workspace_bytes()) + in_lines(message_bytes()) +
           in_lines(static_cast<std::size_t>(size()) * message_bytes());
  }

  void run(const StepContext&) override {
    std::byte* next = scratch();
    const auto take = [&](std::size_t bytes) { return std::exchange(next, next + in_lines(bytes)); };
    auto* unsaid = reinterpret_cast<float*>(take(float_bytes()));
    std::byte* const workspace = take(top_k_.workspace_bytes());
    std::byte* const mine = take(message_bytes());
    std::byte* const all = take(static_cast<std::size_t>(size()) * message_bytes());

    add_to(unsaid, in(0), elements(), device());
    top_k_.select_largest(
        {.gradient = unsaid, .k = keep_, .values = values(mine), .indices = indices(mine), .workspace = workspace});
    clear_chosen(chosen(mine), unsaid, device());
    link().all_gather({mine, message_bytes()}, all, stream());
    TRIFOLD_CUDA(cudaMemsetAsync(out(0), 0, float_bytes(), stream()));
    // One rank after the other: those that chose the same entry are added in their order.
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(size()); ++rank)
      add_chosen(chosen(all + rank * message_bytes()), out(0), device());
  }

 private:
  // A message is the values, then their indices.
  std::size_t message_bytes() const { return static_cast<std::size_t>(keep_) * (sizeof(float) + sizeof(std::int32_t)); }
  static float* values(std::byte* message) { return reinterpret_cast<float*>(message); }
  std::int32_t* indices(std::byte* message) const { return reinterpret_cast<std::int32_t*>(values(message) + keep_); }
  ChosenEntries chosen(std::byte* message) const {
    return {.values = values(message), .indices = indices(message), .count = keep_};
  }

  std::int64_t keep_;
  TopK top_k_;
};

// The thin matrices of all parameters lie together, so that each kind is one exchange; with the left ones goes what is
// no matrix.
class LowRankAllReduceKernel final : public GradientExchangeKernel {
 public:
  explicit LowRankAllReduceKernel(const KernelRequest& request)
      : GradientExchangeKernel(request), product_(op_as<LowRankAllReduce>(request), elements(), device()) {}

  std::size_t lasting_bytes() const override {
    return in_lines(float_bytes()) + in_lines(left_and_plain() * sizeof(float)) +
           in_lines(product_.right_elements() * sizeof(float));
  }

  void run(const StepContext&) override {
    float* const left = this->left();
    float* const right = this->right();
    float* const plain = left + product_.left_elements();
    add_to(unsaid(), in(0), elements(), device());
    product_.multiply(unsaid(), right, left);
    product_.pack_plain(unsaid(), plain);
    link().all_reduce({left, left_and_plain()}, stream());
    product_.make_orthonormal(left);
    product_.multiply_transposed(unsaid(), left, right);
    // What this rank's part of the product does not say; of what is no matrix all was said.
    product_.subtract(left, right, unsaid());
    if (product_.right_elements() > 0) link().all_reduce({right, product_.right_elements()}, stream());
    product_.put_plain(plain, out(0), unsaid());
    product_.put(left, right, out(0));
  }

 private:
  std::size_t left_and_plain() const { return product_.left_elements() + product_.plain_elements(); }
  float* unsaid() const { return reinterpret_cast<float*>(scratch()); }
  float* left() const { return unsaid() + in_lines(float_bytes()) / sizeof(float); }
  float* right() const { return left() + in_lines(left_and_plain() * sizeof(float)) / sizeof(float); }

  // The first step begins with the same numbers on every rank; each other where the last one ended.
  void on_bind() override {
    if (std::exchange(begun_, true) || product_.right_elements() == 0) return;
    std::vector<float> first(product_.right_elements());
    RandomSequence random(0, Purpose::synthetic, 1, 0);
    for (float& value : first) value = random.uniform(-1, 1);
    device().upload(reinterpret_cast<std::byte*>(right()), first.data(), first.size() * sizeof(float));
  }

  LowRankProduct product_;
  bool begun_ = false;
};

class AverageKernel final : public GradientExchangeKernel {
 public:
  using GradientExchangeKernel::GradientExchangeKernel;

  void run(const StepContext&) override {
    if (out(0) != in(0))
      TRIFOLD_CUDA(cudaMemcpyAsync(out(0), in(0), float_bytes(), cudaMemcpyDeviceToDevice, stream()));
    link().all_reduce({out(0), static_cast<std::size_t>(elements())}, stream());
    scale(out(0), 1 / static_cast<float>(size()), elements(), device());
  }
};

const RegisterKernel register_gradient_exchange_half(cuda_backend(), "all_reduce.half",
                                                     make_kernel<HalfAllReduceKernel>);
const RegisterKernel register_gradient_exchange_top_k(cuda_backend(), "all_reduce.top_k",
                                                      make_kernel<TopKAllReduceKernel>);
const RegisterKernel register_gradient_exchange_low_rank(cuda_backend(), "all_reduce.low_rank",
                                                         make_kernel<LowRankAllReduceKernel>);
const RegisterKernel register_gradient_exchange_average(cuda_backend(), "average", make_kernel<AverageKernel>);

}  // namespace
}  // namespace trifold::cuda
