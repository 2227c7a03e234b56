// A step as a CUDA graph: captured from the compute stream once, launched as a whole ever after.
#pragma once

#include "core/cuda/cuda_device.h"

namespace trifold::cuda {

class CudaRecording final : public Recording {
 public:
  CudaRecording(CudaDevice& device, const std::function<void()>& give);
  void replay() override;

 private:
  CudaDevice& device_;
  GraphExec graph_;
};

}  // namespace trifold::cuda
