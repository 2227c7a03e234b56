// Function attributes and occupancy. How many registers ptxas would use is not known here: occupancy is limited by
// threads, blocks and shared memory only.
#include <algorithm>
#include <cstring>

#include <cuda_runtime_api.h>

#include "cudart/api_call.h"
#include "cudart/device_model.h"
#include "cudart/occupancy.h"
#include "cudart/registration.h"

using namespace gpusim;

namespace {

// Null: refused, call.error is set.
RegisteredKernel* kernel_of(ApiCall& call, const void* host_stub) {
  auto* kernel = find_registered_kernel(host_stub);
  if (!kernel) {
    call.refuse(cudaErrorInvalidDeviceFunction, "not a kernel of this program");
  } else if (call.device_lost()) {
    return nullptr;
  } else if (!kernel_on(*kernel, current_device())) {
    call.fail(cudaErrorNoKernelImageForDevice);
    return nullptr;
  }
  return kernel;
}

std::size_t dynamic_limit(const RegisteredKernel& kernel, const KernelResources& resources, int device) {
  const int opt_in = kernel.dynamic_shared_opt_in_bytes[static_cast<std::size_t>(device)];
  if (opt_in > 0) return static_cast<std::size_t>(opt_in);
  return kSharedBytesPerBlock - std::min(kSharedBytesPerBlock, resources.static_shared_bytes);
}

cudaError_t occupancy(ApiCall& call, int* blocks, const void* host_stub, int block_threads, std::size_t dynamic_bytes) {
  auto* kernel = kernel_of(call, host_stub);
  if (!kernel) return call.error;
  if (block_threads <= 0) return call.refuse(cudaErrorInvalidValue, "a block without threads");
  *blocks =
      blocks_per_multiprocessor(resources_of(*kernel_on(*kernel, current_device())), block_threads, dynamic_bytes);
  return cudaSuccess;
}

}  // namespace

int gpusim::blocks_per_multiprocessor(const KernelResources& resources, int block_threads, std::size_t dynamic_bytes) {
  const std::size_t shared = resources.static_shared_bytes + dynamic_bytes;
  if (block_threads > resources.max_threads_per_block || shared > kSharedBytesPerBlockOptIn) return 0;
  const int warps = (block_threads + kWarpLanes - 1) / kWarpLanes;
  int blocks = std::min(kMaxBlocksPerMultiprocessor, kMaxThreadsPerMultiprocessor / kWarpLanes / warps);
  if (shared > 0) blocks = std::min(blocks, static_cast<int>(kSharedBytesPerMultiprocessor / shared));
  return blocks;
}

GPUSIM_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* host_stub) {
  ApiCall call("cudaFuncGetAttributes");
  auto* kernel = kernel_of(call, host_stub);
  if (!kernel) return call.error;
  const int device = current_device();
  const KernelResources resources = resources_of(*kernel_on(*kernel, device));
  std::memset(attributes, 0, sizeof *attributes);
  attributes->sharedSizeBytes = resources.static_shared_bytes;
  attributes->localSizeBytes = resources.local_bytes;
  attributes->maxThreadsPerBlock = resources.max_threads_per_block;
  attributes->numRegs = std::clamp(resources.registers_estimate, 1, 255);
  attributes->ptxVersion = ptx_architecture(*kernel);  // Thrust and CUB choose their tuning by it
  attributes->binaryVersion = compute_capability();
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(dynamic_limit(*kernel, resources, device));
  attributes->preferredShmemCarveout = kernel->shared_carveout[static_cast<std::size_t>(device)];
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaFuncSetAttribute(const void* host_stub, cudaFuncAttribute attribute, int value) {
  ApiCall call("cudaFuncSetAttribute");
  auto* kernel = kernel_of(call, host_stub);
  if (!kernel) return call.error;
  const auto device = static_cast<std::size_t>(current_device());
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize: {
      const KernelResources resources = resources_of(*kernel_on(*kernel, current_device()));
      const std::size_t most = kSharedBytesPerBlockOptIn - resources.static_shared_bytes;
      if (value < 0 || static_cast<std::size_t>(value) > most) {
        return call.refuse(cudaErrorInvalidValue, "kernel " + kernel->name + " can have at most " +
                                                      std::to_string(most) + " bytes of dynamic shared memory, not " +
                                                      std::to_string(value));
      }
      kernel->dynamic_shared_opt_in_bytes[device] = value;
      return cudaSuccess;
    }
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      if (value < -1 || value > 100) return call.refuse(cudaErrorInvalidValue, "the carveout is a percentage, or -1");
      kernel->shared_carveout[device] = value;
      return cudaSuccess;
    default:
      return call.unsupported("attribute " + std::to_string(static_cast<int>(attribute)));
  }
}

GPUSIM_API cudaError_t cudaFuncSetCacheConfig(const void* host_stub, cudaFuncCache) {
  ApiCall call("cudaFuncSetCacheConfig");
  return kernel_of(call, host_stub) ? cudaSuccess : call.error;
}

GPUSIM_API cudaError_t cudaFuncGetName(const char** name, const void* host_stub) {
  ApiCall call("cudaFuncGetName");
  auto* kernel = kernel_of(call, host_stub);
  if (!kernel) return call.error;
  *name = kernel->mangled_name.c_str();
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host_stub,
                                                                     int block_threads, std::size_t dynamic_bytes) {
  ApiCall call("cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return occupancy(call, blocks, host_stub, block_threads, dynamic_bytes);
}

GPUSIM_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* host_stub,
                                                                              int block_threads,
                                                                              std::size_t dynamic_bytes,
                                                                              unsigned flags) {
  ApiCall call("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags");
  if (flags > cudaOccupancyDisableCachingOverride) return call.refuse(cudaErrorInvalidValue, "unknown flags");
  return occupancy(call, blocks, host_stub, block_threads, dynamic_bytes);
}

GPUSIM_API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* host_stub, int blocks,
                                                                 int block_threads) {
  ApiCall call("cudaOccupancyAvailableDynamicSMemPerBlock");
  auto* kernel = kernel_of(call, host_stub);
  if (!kernel) return call.error;
  if (blocks <= 0 || block_threads <= 0) return call.refuse(cudaErrorInvalidValue, "no blocks or no threads");
  const KernelResources resources = resources_of(*kernel_on(*kernel, current_device()));
  const std::size_t share =
      std::min(kSharedBytesPerMultiprocessor / static_cast<std::size_t>(blocks),
               resources.static_shared_bytes + dynamic_limit(*kernel, resources, current_device()));
  *bytes = share - std::min(share, resources.static_shared_bytes);
  return cudaSuccess;
}
