#include "core/cuda/cuda_result_port.h"

namespace trifold::cuda {

CudaResultPort::CudaResultPort(CudaDevice& device, const std::byte* region, std::size_t bytes)
    : device_(device), region_(region), bytes_(bytes), copied_(make_event()) {}

void CudaResultPort::take() {
  device_.make_current();
  if (taken_ == places_.size()) places_.push_back(make_pinned(bytes_));
  TRIFOLD_CUDA(cudaMemcpyAsync(places_[taken_].get(), region_, bytes_, cudaMemcpyDeviceToHost, device_.compute()));
  TRIFOLD_CUDA(cudaEventRecord(copied_.get(), device_.compute()));
  ++taken_;
}

std::span<const std::byte> CudaResultPort::collect() {
  collected_.clear();
  if (taken_ == 0) return {};
  device_.make_current();
  TRIFOLD_CUDA(cudaEventSynchronize(copied_.get()));
  for (std::size_t i = 0; i < taken_; ++i) {
    const auto* place = static_cast<const std::byte*>(places_[i].get());
    collected_.insert(collected_.end(), place, place + bytes_);
  }
  taken_ = 0;
  return collected_;
}

}  // namespace trifold::cuda
