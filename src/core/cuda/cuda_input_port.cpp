#include "core/cuda/cuda_input_port.h"

namespace trifold::cuda {

CudaInputPort::CudaInputPort(CudaDevice& device, std::byte* region, std::size_t bytes)
    : device_(device), region_(region), bytes_(bytes) {
  for (Slot& slot : slots_) {
    slot.host = make_pinned(bytes);
    slot.staged = DeviceMemory(device, bytes);
    slot.copied = make_event();
    slot.moved = make_event();
  }
}

std::byte* CudaInputPort::host() {
  Slot& slot = slots_[filling_];
  if (slot.in_use && !host_ready_) {
    device_.make_current();
    TRIFOLD_CUDA(cudaEventSynchronize(slot.copied.get()));
  }
  host_ready_ = true;
  return static_cast<std::byte*>(slot.host.get());
}

void CudaInputPort::submit() {
  device_.make_current();
  Slot& slot = slots_[filling_];
  if (slot.was_moved) TRIFOLD_CUDA(cudaStreamWaitEvent(device_.copies(), slot.moved.get(), 0));
  TRIFOLD_CUDA(cudaMemcpyAsync(slot.staged.data(), slot.host.get(), bytes_, cudaMemcpyHostToDevice, device_.copies()));
  TRIFOLD_CUDA(cudaEventRecord(slot.copied.get(), device_.copies()));
  slot.in_use = true;
  submitted_ = filling_;
  filling_ = 1 - filling_;
  host_ready_ = false;
}

void CudaInputPort::arrive() {
  device_.make_current();
  Slot& slot = slots_[submitted_];
  TRIFOLD_CUDA(cudaStreamWaitEvent(device_.compute(), slot.copied.get(), 0));
  TRIFOLD_CUDA(cudaMemcpyAsync(region_, slot.staged.data(), bytes_, cudaMemcpyDeviceToDevice, device_.compute()));
  TRIFOLD_CUDA(cudaEventRecord(slot.moved.get(), device_.compute()));
  slot.was_moved = true;
}

}  // namespace trifold::cuda
