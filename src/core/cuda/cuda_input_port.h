// Batches on their way to the GPU: two pinned buffers on the host and two on the device, so that the copy of the next
// batch (on the copy stream) overlaps the work on this one (on the compute stream).
#pragma once

#include <array>

#include "core/cuda/cuda_device.h"

namespace trifold::cuda {

class CudaInputPort final : public InputPort {
 public:
  CudaInputPort(CudaDevice& device, std::byte* region, std::size_t bytes);

  std::byte* host() override;
  void submit() override;
  void arrive() override;

 private:
  struct Slot {
    PinnedMemory host;
    DeviceMemory staged;
    Event copied;  // into `staged`; the host buffer is free again
    Event moved;   // from `staged` into the region; `staged` is free again
    bool in_use = false;
    bool was_moved = false;
  };

  CudaDevice& device_;
  std::byte* region_;
  std::size_t bytes_;
  std::array<Slot, 2> slots_;
  std::size_t filling_ = 0;    // the slot that the host writes
  std::size_t submitted_ = 0;  // the one that is on its way
  bool host_ready_ = false;    // the filling slot's last copy is known to be done
};

}  // namespace trifold::cuda
