// One GPU: its streams, library handles and memory. Compute, copies and communication have a stream each, joined by
// events; nothing here waits for the whole device. All work of a rank goes through the one CudaDevice of that rank.
#pragma once

#include <array>

#include <cuda_runtime.h>

#include "core/cuda/cuda_handles.h"
#include "core/device.h"

namespace trifold::cuda {

// StepContext as kernels read it: it lies in device memory at one address, so that a recorded step finds the new
// values.
struct DeviceStep {
  unsigned long long seed;
  long long first_sample;
  double learning_rate;
  long long updates;
  double mean_class_weight;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index);
  ~CudaDevice() override;

  std::string name() const override;
  bool host_memory() const override { return false; }
  std::size_t memory_bytes() const override;
  std::byte* allocate(std::size_t bytes) override;
  void clear(std::byte* memory, std::size_t bytes) override;
  void release(std::byte* memory) noexcept override;
  void upload(std::byte* to, const void* from, std::size_t bytes) override;
  void download(void* to, const std::byte* from, std::size_t bytes) override;
  void synchronize() override;
  std::unique_ptr<InputPort> make_input(std::byte* region, std::size_t bytes) override;
  std::unique_ptr<ResultPort> make_result(const std::byte* region, std::size_t bytes) override;
  void set_step(const StepContext& context) override;
  std::unique_ptr<Recording> record(const std::function<void()>& give) override;

  int index() const { return index_; }
  int multiprocessors() const { return multiprocessors_; }
  cudaStream_t compute() const { return compute_.get(); }
  cudaStream_t copies() const { return copies_.get(); }
  cudaStream_t communication() const { return communication_.get(); }
  cudnnHandle_t cudnn() const { return cudnn_.get(); }  // on the compute stream
  cublasLtHandle_t cublas() const { return cublas_.get(); }
  const DeviceStep* step() const { return step_; }  // device memory

  // Makes this thread's CUDA calls go to this GPU. Every function above does it; kernels' run() may rely on it.
  void make_current() const;

 private:
  // Pinned, so that the copy to the GPU does not hold up the host; several, so that a copy that is still to come is not
  // overwritten.
  static constexpr int kSteps = 4;
  struct StepSlot {
    DeviceStep* host = nullptr;
    Event copied;
    bool used = false;
  };

  int index_;
  int multiprocessors_ = 0;
  Stream compute_;
  Stream copies_;
  Stream communication_;
  CudnnHandle cudnn_;
  CublasLtHandle cublas_;
  DeviceStep* step_ = nullptr;
  PinnedMemory step_memory_;
  std::array<StepSlot, kSteps> step_slots_;
  int next_slot_ = 0;
};

}  // namespace trifold::cuda
