// Results on their way to the host: each is copied to pinned memory when the compute stream comes to it, and read
// when all are there.
#pragma once

#include <vector>

#include "core/cuda/cuda_device.h"

namespace trifold::cuda {

class CudaResultPort final : public ResultPort {
 public:
  CudaResultPort(CudaDevice& device, const std::byte* region, std::size_t bytes);

  void take() override;
  std::span<const std::byte> collect() override;

 private:
  CudaDevice& device_;
  const std::byte* region_;
  std::size_t bytes_;
  Event copied_;                      // the last that was taken
  std::vector<PinnedMemory> places_;  // as many as were ever taken at once
  std::size_t taken_ = 0;
  std::vector<std::byte> collected_;
};

}  // namespace trifold::cuda
