#include "core/cuda/cuda_device.h"

#include <fmt/format.h>

#include "core/cuda/cuda_input_port.h"
#include "core/cuda/cuda_recording.h"
#include "core/cuda/cuda_result_port.h"

namespace trifold::cuda {

CudaDevice::CudaDevice(int index) : index_(index) {
  make_current();
  TRIFOLD_CUDA(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, index));
  compute_ = make_stream();
  copies_ = make_stream();
  communication_ = make_stream();
  cudnn_ = make_cudnn(compute_.get());
  cublas_ = make_cublas();
  step_ = reinterpret_cast<DeviceStep*>(allocate(sizeof(DeviceStep)));
  step_memory_ = make_pinned(sizeof(DeviceStep) * kSteps);
  for (int i = 0; i < kSteps; ++i) {
    step_slots_[static_cast<std::size_t>(i)].host = static_cast<DeviceStep*>(step_memory_.get()) + i;
    step_slots_[static_cast<std::size_t>(i)].copied = make_event();
  }
}

CudaDevice::~CudaDevice() {
  release(reinterpret_cast<std::byte*>(step_));
}

std::string CudaDevice::name() const {
  return fmt::format("cuda#{}", index_);
}

std::size_t CudaDevice::memory_bytes() const {
  make_current();
  std::size_t free_bytes = 0;
  std::size_t all_bytes = 0;
  TRIFOLD_CUDA(cudaMemGetInfo(&free_bytes, &all_bytes));
  return all_bytes;
}

void CudaDevice::make_current() const {
  TRIFOLD_CUDA(cudaSetDevice(index_));
}

std::byte* CudaDevice::allocate(std::size_t bytes) {
  make_current();
  void* memory = nullptr;
  TRIFOLD_CUDA(cudaMalloc(&memory, bytes));
  return static_cast<std::byte*>(memory);
}

void CudaDevice::clear(std::byte* memory, std::size_t bytes) {
  make_current();
  TRIFOLD_CUDA(cudaMemsetAsync(memory, 0, bytes, compute()));
}

void CudaDevice::release(std::byte* memory) noexcept {
  static_cast<void>(cudaSetDevice(index_));
  static_cast<void>(cudaStreamSynchronize(compute()));
  static_cast<void>(cudaFree(memory));
}

void CudaDevice::upload(std::byte* to, const void* from, std::size_t bytes) {
  make_current();
  // From pageable memory: the runtime takes a copy before it returns.
  TRIFOLD_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, compute()));
  TRIFOLD_CUDA(cudaStreamSynchronize(compute()));
}

void CudaDevice::download(void* to, const std::byte* from, std::size_t bytes) {
  make_current();
  TRIFOLD_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, compute()));
  TRIFOLD_CUDA(cudaStreamSynchronize(compute()));
}

void CudaDevice::synchronize() {
  make_current();
  for (const Stream* stream : {&compute_, &copies_, &communication_})
    TRIFOLD_CUDA(cudaStreamSynchronize(stream->get()));
}

std::unique_ptr<InputPort> CudaDevice::make_input(std::byte* region, std::size_t bytes) {
  make_current();
  return std::make_unique<CudaInputPort>(*this, region, bytes);
}

std::unique_ptr<ResultPort> CudaDevice::make_result(const std::byte* region, std::size_t bytes) {
  make_current();
  return std::make_unique<CudaResultPort>(*this, region, bytes);
}

void CudaDevice::set_step(const StepContext& context) {
  make_current();
  StepSlot& slot = step_slots_[static_cast<std::size_t>(next_slot_)];
  next_slot_ = (next_slot_ + 1) % kSteps;
  if (slot.used) TRIFOLD_CUDA(cudaEventSynchronize(slot.copied.get()));
  *slot.host = {context.seed, context.first_sample, context.learning_rate, context.updates, context.mean_class_weight};
  TRIFOLD_CUDA(cudaMemcpyAsync(step_, slot.host, sizeof(DeviceStep), cudaMemcpyHostToDevice, compute()));
  TRIFOLD_CUDA(cudaEventRecord(slot.copied.get(), compute()));
  slot.used = true;
}

std::unique_ptr<Recording> CudaDevice::record(const std::function<void()>& give) {
  make_current();
  return std::make_unique<CudaRecording>(*this, give);
}

}  // namespace trifold::cuda
