// NVTX ranges of what this thread gives to GPUs, in a domain "trifold". Always on: without a tool (Nsight) a range is a
// look at a null pointer.
#pragma once

namespace trifold::cuda {

void push_nvtx_range(const char* name);
void pop_nvtx_range() noexcept;

}  // namespace trifold::cuda
