// The library's one export: the GPUs of this machine, or why there are none to use.
#include <memory>

#include "core/cuda/cuda_recorder.h"
#include "core/cuda/nvtx_range.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/gpu_plugin.h"
#include "parallel/communicator/nccl/nccl_groups.h"

namespace trifold::cuda {

namespace {

class CudaPlugin final : public GpuPlugin {
 public:
  explicit CudaPlugin(int count) : devices_(static_cast<std::size_t>(count)) {}

  Backend& backend(bool own_convolutions) override { return own_convolutions ? own_conv_backend() : cuda_backend(); }

  std::vector<GpuInfo> gpus() override {
    std::vector<GpuInfo> found;
    for (int i = 0; i < static_cast<int>(devices_.size()); ++i) {
      cudaDeviceProp properties{};
      TRIFOLD_CUDA(cudaGetDeviceProperties(&properties, i));
      found.push_back({.device = fmt::format("cuda#{}", i),
                       .name = properties.name,
                       .memory_bytes = properties.totalGlobalMem,
                       .multiprocessors = properties.multiProcessorCount,
                       .capability = fmt::format("{}.{}", properties.major, properties.minor)});
    }
    return found;
  }

  Device& device(int index) override {
    std::unique_ptr<CudaDevice>& device = devices_[static_cast<std::size_t>(index)];
    if (!device) device = std::make_unique<CudaDevice>(index);
    return *device;
  }

  std::unique_ptr<DeviceGroups> make_groups(const RankGroups& ranks, Device& device,
                                            std::vector<Route> routes) override {
    return std::make_unique<NcclGroups>(ranks, static_cast<CudaDevice&>(device), std::move(routes));
  }

  std::unique_ptr<ActivityRecorder> make_recorder(std::vector<Device*> devices) override {
    std::vector<CudaDevice*> of_cuda;
    for (Device* device : devices) of_cuda.push_back(static_cast<CudaDevice*>(device));
    return cuda::make_recorder(std::move(of_cuda));
  }

  void push_range(const std::string& name) override { push_nvtx_range(name.c_str()); }
  void pop_range() noexcept override { pop_nvtx_range(); }

 private:
  std::vector<std::unique_ptr<CudaDevice>> devices_;
};

}  // namespace
}  // namespace trifold::cuda

extern "C" trifold::GpuPlugin* trifold_gpu_plugin(std::string* why_not) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    *why_not = status == cudaErrorInsufficientDriver
                   ? "there is no NVIDIA driver, or it is older than the CUDA runtime"
                   : fmt::format("CUDA finds no GPU: {}",
                                 status == cudaSuccess ? "none is there" : cudaGetErrorString(status));
    return nullptr;
  }
  trifold::cuda::prepare_nccl();
  static trifold::cuda::CudaPlugin plugin(count);
  return &plugin;
}
