// The barrier of a cooperative launch.
#pragma once

#include <cuda/atomic>

#include "kernels/cuda/cooperative.h"

namespace trifold::cuda {

// All threads of all blocks come. Those of the block that is last run `last` while the others wait: `last` sees what
// all blocks wrote before, and all blocks see afterwards what it wrote.
template <class Last>
__device__ __forceinline__ void meet(GridMeeting& meeting, const Last& last) {
  using Word = ::cuda::atomic_ref<unsigned, ::cuda::thread_scope_device>;
  const Word arrived(meeting.arrived), meetings(meeting.meetings);
  __shared__ bool is_last;
  unsigned before = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    before = meetings.load(::cuda::memory_order_relaxed);  // it cannot change before this block has arrived
    is_last = arrived.fetch_add(1, ::cuda::memory_order_acq_rel) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last) {
    last();
    __syncthreads();
    if (threadIdx.x == 0) {
      arrived.store(0, ::cuda::memory_order_relaxed);
      meetings.store(before + 1, ::cuda::memory_order_release);
    }
  } else if (threadIdx.x == 0) {
    while (meetings.load(::cuda::memory_order_acquire) == before) __nanosleep(100);
  }
  __syncthreads();
}

}  // namespace trifold::cuda
