// Devices: choosing, describing, waiting for and resetting them.
#include <cstdio>
#include <cstring>

#include <cuda_runtime_api.h>

#include "cudart/api_call.h"
#include "cudart/device_model.h"
#include "cudart/registration.h"
#include "engine/device_faults.h"
#include "engine/peer_access.h"

using namespace gpusim;

namespace {

// Empty: an attribute the simulator has no value for.
std::optional<int> value_of(cudaDeviceAttr attribute, int device) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return kMaxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX:
      return kMaxBlockDim[0];
    case cudaDevAttrMaxBlockDimY:
      return kMaxBlockDim[1];
    case cudaDevAttrMaxBlockDimZ:
      return kMaxBlockDim[2];
    case cudaDevAttrMaxGridDimX:
      return kMaxGridDim[0];
    case cudaDevAttrMaxGridDimY:
      return kMaxGridDim[1];
    case cudaDevAttrMaxGridDimZ:
      return kMaxGridDim[2];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(kSharedBytesPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(kSharedBytesPerBlockOptIn);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(kSharedBytesPerMultiprocessor);
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return 0;
    case cudaDevAttrTotalConstantMemory:
      return static_cast<int>(kConstantBytes);
    case cudaDevAttrWarpSize:
      return kWarpLanes;
    case cudaDevAttrMaxPitch:
      return 2147483647;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return kRegistersPerMultiprocessor;
    case cudaDevAttrClockRate:
      return 1000000;  // kHz: one cycle a nanosecond
    case cudaDevAttrMemoryClockRate:
      return 5000000;  // kHz
    case cudaDevAttrGlobalMemoryBusWidth:
      return 256;
    case cudaDevAttrMultiProcessorCount:
      return kMultiprocessors;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return kMaxThreadsPerMultiprocessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return kMaxBlocksPerMultiprocessor;
    case cudaDevAttrL2CacheSize:
      return kL2Bytes;
    case cudaDevAttrComputeCapabilityMajor:
      return compute_capability() / 10;
    case cudaDevAttrComputeCapabilityMinor:
      return compute_capability() % 10;
    case cudaDevAttrPciBusId:
      return device + 1;
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
      return 0;
    case cudaDevAttrTextureAlignment:
      return 512;
    case cudaDevAttrGpuOverlap:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrComputePreemptionSupported:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCooperativeLaunch:
      return 1;
    case cudaDevAttrAsyncEngineCount:
      return 3;
    case cudaDevAttrComputeMode:
      return cudaComputeModeDefault;
    // What the simulator does not have.
    case cudaDevAttrKernelExecTimeout:
    case cudaDevAttrIntegrated:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrTccDriver:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrIsMultiGpuBoard:
    case cudaDevAttrHostNativeAtomicSupported:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrDirectManagedMemAccessFromHost:
    case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
    case cudaDevAttrMaxPersistingL2CacheSize:
    case cudaDevAttrMaxAccessPolicyWindowSize:
    case cudaDevAttrGPUDirectRDMASupported:
    case cudaDevAttrClusterLaunch:
    case cudaDevAttrMemoryPoolSupportedHandleTypes:
    case cudaDevAttrIpcEventSupport:
      return 0;
    default:
      return std::nullopt;
  }
}

}  // namespace

GPUSIM_API cudaError_t cudaGetDeviceCount(int* count) {
  ApiCall call("cudaGetDeviceCount");
  *count = device_count();
  return *count > 0 ? cudaSuccess : call.fail(cudaErrorNoDevice);
}

GPUSIM_API cudaError_t cudaGetDevice(int* device) {
  ApiCall call("cudaGetDevice");
  if (device_count() == 0) return call.fail(cudaErrorNoDevice);
  *device = current_device();
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaSetDevice(int device) {
  ApiCall call("cudaSetDevice");
  if (!is_device(device)) return call.fail(device_count() == 0 ? cudaErrorNoDevice : cudaErrorInvalidDevice);
  set_current_device(device);
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  ApiCall call("cudaInitDevice");
  return is_device(device) ? cudaSuccess : call.fail(cudaErrorInvalidDevice);
}

GPUSIM_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  ApiCall call("cudaDeviceGetAttribute");
  if (!is_device(device)) return call.fail(cudaErrorInvalidDevice);
  const auto known = value_of(attribute, device);
  if (!known) return call.unsupported("attribute " + std::to_string(static_cast<int>(attribute)));
  *value = *known;
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  ApiCall call("cudaGetDeviceProperties");
  if (!is_device(device)) return call.fail(cudaErrorInvalidDevice);
  const auto get = [device](cudaDeviceAttr attribute) { return value_of(attribute, device).value(); };
  std::memset(properties, 0, sizeof *properties);
  std::snprintf(properties->name, sizeof properties->name, "gpusim %d.%d", compute_capability() / 10,
                compute_capability() % 10);
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  properties->totalGlobalMem = DeviceMemory::get().capacity_bytes();
  properties->sharedMemPerBlock = kSharedBytesPerBlock;
  properties->sharedMemPerBlockOptin = kSharedBytesPerBlockOptIn;
  properties->sharedMemPerMultiprocessor = kSharedBytesPerMultiprocessor;
  properties->regsPerBlock = properties->regsPerMultiprocessor = kRegistersPerMultiprocessor;
  properties->warpSize = kWarpLanes;
  properties->memPitch = static_cast<std::size_t>(get(cudaDevAttrMaxPitch));
  properties->maxThreadsPerBlock = kMaxThreadsPerBlock;
  std::memcpy(properties->maxThreadsDim, kMaxBlockDim, sizeof kMaxBlockDim);
  std::memcpy(properties->maxGridSize, kMaxGridDim, sizeof kMaxGridDim);
  properties->totalConstMem = kConstantBytes;
  properties->major = compute_capability() / 10;
  properties->minor = compute_capability() % 10;
  properties->textureAlignment = static_cast<std::size_t>(get(cudaDevAttrTextureAlignment));
  properties->multiProcessorCount = kMultiprocessors;
  properties->concurrentKernels = 1;
  properties->pciBusID = get(cudaDevAttrPciBusId);
  properties->asyncEngineCount = get(cudaDevAttrAsyncEngineCount);
  properties->unifiedAddressing = 1;
  properties->memoryBusWidth = get(cudaDevAttrGlobalMemoryBusWidth);
  properties->l2CacheSize = kL2Bytes;
  properties->maxThreadsPerMultiProcessor = kMaxThreadsPerMultiprocessor;
  properties->maxBlocksPerMultiProcessor = kMaxBlocksPerMultiprocessor;
  properties->streamPrioritiesSupported = 1;
  properties->globalL1CacheSupported = properties->localL1CacheSupported = 1;
  properties->computePreemptionSupported = 1;
  properties->memoryPoolsSupported = 1;
  properties->cooperativeLaunch = 1;
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaDeviceGetPCIBusId(char* text, int capacity, int device) {
  ApiCall call("cudaDeviceGetPCIBusId");
  if (!is_device(device)) return call.fail(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(capacity), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaDriverGetVersion(int* version) {
  *version = kRuntimeVersion;
  return cudaSuccess;
}
GPUSIM_API cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kRuntimeVersion;
  return cudaSuccess;
}

// How the host waits makes no difference here.
GPUSIM_API cudaError_t cudaSetDeviceFlags(unsigned) {
  return cudaSuccess;
}
GPUSIM_API cudaError_t cudaProfilerStart() {
  return cudaSuccess;
}
GPUSIM_API cudaError_t cudaProfilerStop() {
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaDeviceSynchronize() {
  ApiCall call("cudaDeviceSynchronize");
  if (device_count() == 0) return call.fail(cudaErrorNoDevice);
  if (const auto forbidden = call.forbidden_in_capture()) return *forbidden;
  wait_on_host(everything_on(current_device()));
  return call.done();
}

GPUSIM_API cudaError_t cudaDeviceReset() {
  ApiCall call("cudaDeviceReset");
  if (device_count() == 0) return call.fail(cudaErrorNoDevice);
  if (const auto forbidden = call.forbidden_in_capture()) return *forbidden;
  const int device = current_device();
  const Clock everything = everything_on(device);
  if (fault_of(device)) abandon_everything_on(device);
  wait_on_host(everything);
  destroy_streams_of(device);
  unload_modules_of(device);
  DeviceMemory::get().release_all(device);
  for (int peer = 0; peer < kMaxDevices; ++peer) set_peer_access(device, peer, false);
  clear_fault(device);
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaDeviceGetLimit(std::size_t*, cudaLimit limit) {
  ApiCall call("cudaDeviceGetLimit");
  return call.unsupported("limit " + std::to_string(static_cast<int>(limit)));
}
GPUSIM_API cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t) {
  ApiCall call("cudaDeviceSetLimit");
  return call.unsupported("limit " + std::to_string(static_cast<int>(limit)));
}
GPUSIM_API cudaError_t cudaGetDriverEntryPoint(const char* symbol, void**, unsigned long long,
                                               cudaDriverEntryPointQueryResult*) {
  ApiCall call("cudaGetDriverEntryPoint");
  return call.unsupported(std::string("driver function ") + symbol);
}
GPUSIM_API cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void**, unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult*) {
  ApiCall call("cudaGetDriverEntryPointByVersion");
  return call.unsupported(std::string("driver function ") + symbol);
}
