// What the channel-wise kernels share: how a TensorDesc looks to the loops, and per-thread sums in scratch that are
// added in thread order, so that a run gives the same bits every time.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/parallel.h"
#include "core/tensor.h"
#include "kernels/cpu/simd/channel_view.h"

namespace trifold::cpu {

inline ChannelView view_of(const TensorDesc& desc) {
  return {desc.shape.channels(), desc.shape.pixels(), desc.layout.order == Order::channel_block};
}

// `count` doubles a thread, zeroed by each thread before it adds to its own.
class ThreadSums {
 public:
  ThreadSums(std::int64_t count, int threads) : count_(count), stride_((count + 7) / 8 * 8), threads_(threads) {}

  std::size_t bytes() const { return static_cast<std::size_t>(stride_ * threads_) * sizeof(double); }
  double* clear(std::byte* memory, int thread) const {
    double* sums = of(memory, thread);
    std::fill_n(sums, count_, 0.0);
    return sums;
  }
  double total(std::byte* memory, std::int64_t index, int threads) const {
    double sum = 0;
    for (int thread = 0; thread < threads; ++thread) sum += of(memory, thread)[index];
    return sum;
  }

 private:
  double* of(std::byte* memory, int thread) const { return reinterpret_cast<double*>(memory) + stride_ * thread; }

  std::int64_t count_;
  std::int64_t stride_;
  int threads_;
};

}  // namespace trifold::cpu
