// Allocation: device memory, stream-ordered device memory, pinned host memory, and what a pointer is.
#include <unordered_set>

#include <cuda_runtime_api.h>

#include "cudart/api_call.h"
#include "engine/pinned_memory.h"

using namespace gpusim;

namespace {

constexpr std::size_t kPitchAlignment = 512;

// Blocks that cudaFreeAsync was called for and that are not yet freed in their stream.
std::unordered_set<Address>& being_freed() {
  static auto* all = new std::unordered_set<Address>;
  return *all;
}

cudaError_t allocate(ApiCall& call, void** pointer, std::size_t bytes, const char* what) {
  if (!pointer) return call.refuse(cudaErrorInvalidValue, "null pointer");
  *pointer = nullptr;
  if (const auto lost = call.device_lost()) return *lost;
  if (bytes == 0) return cudaSuccess;
  *pointer = DeviceMemory::get().allocate(current_device(), bytes, what);
  return *pointer ? cudaSuccess : call.fail(cudaErrorMemoryAllocation);
}

// Sets call.error when the pointer cannot be freed.
bool accept_free(ApiCall& call, void* pointer) {
  const auto address = reinterpret_cast<Address>(pointer);
  const auto& memory = DeviceMemory::get();
  const auto block = memory.block_of(address);
  if (!block || block->address != address) {
    call.refuse(cudaErrorInvalidValue, "not the beginning of an allocation: " + memory.describe(address));
  } else if (!block->live || being_freed().contains(address)) {
    call.refuse(cudaErrorInvalidValue, memory.describe(address), Finding::double_free);
  } else {
    return true;
  }
  return false;
}

void check_not_in_use(ApiCall& call, Address address, std::size_t bytes) {
  const OperationId user = access_unknown_to_host(address, bytes);
  if (!user) return;
  report(Finding::use_after_free, std::string(call.name()) + ": '" + operation(user)->what + "' (stream " +
                                      std::to_string(operation(user)->stream) +
                                      ") uses the memory and the host has not waited for it; " +
                                      DeviceMemory::get().describe(address));
}

cudaError_t allocate_async(ApiCall& call, void** pointer, std::size_t bytes, cudaStream_t handle) {
  CUstream_st* stream = call.stream_for_work(handle);
  if (!stream) return call.error;
  if (stream->seat.capture) return call.unsupported("allocations in a captured graph");
  const cudaError_t status = allocate(call, pointer, bytes, "cudaMallocAsync");
  if (status != cudaSuccess || bytes == 0) return status;
  const auto address = reinterpret_cast<Address>(*pointer);
  // The allocation is an access, so that a stream that is not ordered after it is reported.
  enqueue(handle, {.what = call.name(),
                   .run = [=] { touch(address, bytes, Access::write); },
                   .kind = WorkKind::allocation,
                   .cost_ns = 500});
  return cudaSuccess;
}

}  // namespace

GPUSIM_API cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  ApiCall call("cudaMalloc");
  if (const auto forbidden = call.forbidden_in_capture()) return *forbidden;
  return allocate(call, pointer, bytes, "cudaMalloc");
}

GPUSIM_API cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width, std::size_t height) {
  ApiCall call("cudaMallocPitch");
  if (const auto forbidden = call.forbidden_in_capture()) return *forbidden;
  *pitch = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  return allocate(call, pointer, *pitch * height, "cudaMallocPitch");
}

GPUSIM_API cudaError_t cudaFree(void* pointer) {
  ApiCall call("cudaFree");
  if (!pointer) return call.done();
  if (const auto forbidden = call.forbidden_in_capture()) return *forbidden;
  if (!accept_free(call, pointer)) return call.error;
  const auto address = reinterpret_cast<Address>(pointer);
  const auto block = *DeviceMemory::get().block_of(address);
  // Every driver waits for the device here, though the documentation does not promise it.
  const Clock everything = everything_on(DeviceMemory::get().device_of(address));
  if (is_strict()) {
    run_all(everything);
    check_not_in_use(call, address, block.bytes);
  } else {
    wait_on_host(everything);
  }
  DeviceMemory::get().release(pointer);
  return call.done();
}

GPUSIM_API cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  ApiCall call("cudaMallocAsync");
  return allocate_async(call, pointer, bytes, stream);
}
GPUSIM_API cudaError_t cudaMallocAsync_ptsz(void** pointer, std::size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(pointer, bytes, per_thread(stream));
}

GPUSIM_API cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  ApiCall call("cudaFreeAsync");
  CUstream_st* stream = call.stream_for_work(handle);
  if (!stream) return call.error;
  if (!pointer) return call.done();
  if (stream->seat.capture) return call.unsupported("frees in a captured graph");
  if (!accept_free(call, pointer)) return call.error;
  const auto address = reinterpret_cast<Address>(pointer);
  const std::size_t bytes = DeviceMemory::get().block_of(address)->bytes;
  being_freed().insert(address);
  const auto run = [=] {
    touch(address, bytes, Access::write);  // whoever uses it without an order to the free is reported
    DeviceMemory::get().release(pointer);
    being_freed().erase(address);
  };
  enqueue(handle, {.what = call.name(), .run = run, .kind = WorkKind::allocation, .cost_ns = 500});
  return call.done();
}
GPUSIM_API cudaError_t cudaFreeAsync_ptsz(void* pointer, cudaStream_t stream) {
  return cudaFreeAsync(pointer, per_thread(stream));
}

GPUSIM_API cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  ApiCall call("cudaHostAlloc");
  if (!pointer) return call.refuse(cudaErrorInvalidValue, "null pointer");
  *pointer = nullptr;
  if (const auto lost = call.device_lost()) return *lost;
  if (const auto forbidden = call.forbidden_in_capture()) return *forbidden;
  if (bytes == 0) return cudaSuccess;
  *pointer = PinnedMemory::get().allocate(bytes, flags);
  return *pointer ? cudaSuccess : call.fail(cudaErrorMemoryAllocation);
}

GPUSIM_API cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return cudaHostAlloc(pointer, bytes, 0);
}

GPUSIM_API cudaError_t cudaFreeHost(void* pointer) {
  ApiCall call("cudaFreeHost");
  if (!pointer) return call.done();
  if (const auto forbidden = call.forbidden_in_capture()) return *forbidden;
  const auto address = reinterpret_cast<Address>(pointer);
  auto& pinned = PinnedMemory::get();
  PinnedMemory::Extent block;
  if (!pinned.contains(address) || !pinned.block_of(address, block) || block.address != address) {
    const bool freed = pinned.contains(address) && pinned.describe(address).find("freed") != std::string::npos;
    return call.refuse(cudaErrorInvalidValue,
                       pinned.contains(address) ? pinned.describe(address) : hex(address) + " is not pinned memory",
                       freed ? Finding::double_free : Finding::invalid_call);
  }
  for (int device = 0; device < device_count(); ++device) {  // pending copies still need it: every driver waits
    if (is_strict()) {
      run_all(everything_on(device));
    } else {
      wait_on_host(everything_on(device));
    }
  }
  if (is_strict()) check_not_in_use(call, address, block.bytes);
  pinned.release(pointer);
  return call.done();
}

GPUSIM_API cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  ApiCall call("cudaHostGetFlags");
  PinnedMemory::Extent block;
  if (!PinnedMemory::get().block_of(reinterpret_cast<Address>(pointer), block)) {
    return call.refuse(cudaErrorInvalidValue, "not pinned memory");
  }
  *flags = block.flags;
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaHostGetDevicePointer(void**, void*, unsigned) {
  ApiCall call("cudaHostGetDevicePointer");
  return call.unsupported("kernels cannot reach pinned host memory in the simulator");
}
GPUSIM_API cudaError_t cudaHostRegister(void*, std::size_t, unsigned) {
  ApiCall call("cudaHostRegister");
  return call.unsupported("only memory of cudaHostAlloc and cudaMallocHost can be pinned");
}
GPUSIM_API cudaError_t cudaMallocManaged(void**, std::size_t, unsigned) {
  ApiCall call("cudaMallocManaged");
  return call.unsupported("managed memory");
}

GPUSIM_API cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  ApiCall call("cudaMemGetInfo");
  if (const auto lost = call.device_lost()) return *lost;
  const auto& memory = DeviceMemory::get();
  *total_bytes = memory.capacity_bytes();
  *free_bytes = memory.capacity_bytes() - memory.used_bytes(current_device());
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  ApiCall call("cudaPointerGetAttributes");
  const auto address = reinterpret_cast<Address>(pointer);
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = cudaInvalidDeviceId;
  PinnedMemory::Extent block;
  if (const auto device_block = DeviceMemory::get().block_of(address); device_block && device_block->live) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = DeviceMemory::get().device_of(address);
    attributes->devicePointer = const_cast<void*>(pointer);
  } else if (PinnedMemory::get().block_of(address, block)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->device = current_device();
    attributes->hostPointer = const_cast<void*>(pointer);
  } else {
    attributes->hostPointer = const_cast<void*>(pointer);
  }
  return call.done();
}
