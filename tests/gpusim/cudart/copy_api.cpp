// cudaMemcpy* and cudaMemset*: their argument lists, turned into named ones.
#include <cuda_runtime_api.h>

#include "cudart/copies.h"

using namespace gpusim;

namespace {

struct Linear {
  const char* name;
  void* destination;
  const void* source;
  std::size_t bytes;
  cudaMemcpyKind kind;
  cudaStream_t stream;
  bool asynchronous;
};
cudaError_t copy_linear(const Linear& args) {
  ApiCall call(args.name);
  return copy(call, {.destination = args.destination,
                     .source = args.source,
                     .row_bytes = args.bytes,
                     .kind = args.kind,
                     .stream = args.stream,
                     .asynchronous = args.asynchronous});
}

cudaError_t copy_between_devices(ApiCall& call, void* destination, int to_device, const void* source, int from_device,
                                 std::size_t bytes, cudaStream_t stream) {
  if (!is_device(to_device) || !is_device(from_device)) return call.refuse(cudaErrorInvalidDevice, "no such device");
  const auto& memory = DeviceMemory::get();
  const auto lies_on = [&](const void* pointer, int device) {
    const auto address = reinterpret_cast<Address>(pointer);
    return memory.contains(address) && memory.device_of(address) == device;
  };
  if (!lies_on(destination, to_device) || !lies_on(source, from_device)) {
    return call.refuse(cudaErrorInvalidValue, "a pointer does not lie on the device that is named for it");
  }
  return copy(call, {.destination = destination,
                     .source = source,
                     .row_bytes = bytes,
                     .kind = cudaMemcpyDeviceToDevice,
                     .stream = stream,
                     .asynchronous = true});
}

}  // namespace

GPUSIM_API cudaError_t cudaMemcpy(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind) {
  return copy_linear({"cudaMemcpy", destination, source, bytes, kind, nullptr, false});
}
GPUSIM_API cudaError_t cudaMemcpy_ptds(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind) {
  return copy_linear({"cudaMemcpy", destination, source, bytes, kind, cudaStreamPerThread, false});
}
GPUSIM_API cudaError_t cudaMemcpyAsync(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                                       cudaStream_t stream) {
  return copy_linear({"cudaMemcpyAsync", destination, source, bytes, kind, stream, true});
}
GPUSIM_API cudaError_t cudaMemcpyAsync_ptsz(void* destination, const void* source, std::size_t bytes,
                                            cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_linear({"cudaMemcpyAsync", destination, source, bytes, kind, per_thread(stream), true});
}

GPUSIM_API cudaError_t cudaMemcpy2D(void* destination, std::size_t destination_pitch, const void* source,
                                    std::size_t source_pitch, std::size_t width, std::size_t height,
                                    cudaMemcpyKind kind) {
  ApiCall call("cudaMemcpy2D");
  return copy(call, {destination, source, width, height, destination_pitch, source_pitch, kind, nullptr, false});
}
GPUSIM_API cudaError_t cudaMemcpy2D_ptds(void* destination, std::size_t destination_pitch, const void* source,
                                         std::size_t source_pitch, std::size_t width, std::size_t height,
                                         cudaMemcpyKind kind) {
  ApiCall call("cudaMemcpy2D");
  return copy(call,
              {destination, source, width, height, destination_pitch, source_pitch, kind, cudaStreamPerThread, false});
}
GPUSIM_API cudaError_t cudaMemcpy2DAsync(void* destination, std::size_t destination_pitch, const void* source,
                                         std::size_t source_pitch, std::size_t width, std::size_t height,
                                         cudaMemcpyKind kind, cudaStream_t stream) {
  ApiCall call("cudaMemcpy2DAsync");
  return copy(call, {destination, source, width, height, destination_pitch, source_pitch, kind, stream, true});
}
GPUSIM_API cudaError_t cudaMemcpy2DAsync_ptsz(void* destination, std::size_t destination_pitch, const void* source,
                                              std::size_t source_pitch, std::size_t width, std::size_t height,
                                              cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpy2DAsync(destination, destination_pitch, source, source_pitch, width, height, kind,
                           per_thread(stream));
}

GPUSIM_API cudaError_t cudaMemcpyPeer(void* destination, int to_device, const void* source, int from_device,
                                      std::size_t bytes) {
  ApiCall call("cudaMemcpyPeer");
  return copy_between_devices(call, destination, to_device, source, from_device, bytes, nullptr);
}
GPUSIM_API cudaError_t cudaMemcpyPeerAsync(void* destination, int to_device, const void* source, int from_device,
                                           std::size_t bytes, cudaStream_t stream) {
  ApiCall call("cudaMemcpyPeerAsync");
  return copy_between_devices(call, destination, to_device, source, from_device, bytes, stream);
}

GPUSIM_API cudaError_t cudaMemset(void* destination, int value, std::size_t bytes) {
  ApiCall call("cudaMemset");
  return fill(call, {.destination = destination, .value = value, .row_bytes = bytes});
}
GPUSIM_API cudaError_t cudaMemset_ptds(void* destination, int value, std::size_t bytes) {
  ApiCall call("cudaMemset");
  return fill(call, {.destination = destination, .value = value, .row_bytes = bytes, .stream = cudaStreamPerThread});
}
GPUSIM_API cudaError_t cudaMemsetAsync(void* destination, int value, std::size_t bytes, cudaStream_t stream) {
  ApiCall call("cudaMemsetAsync");
  return fill(call, {.destination = destination, .value = value, .row_bytes = bytes, .stream = stream});
}
GPUSIM_API cudaError_t cudaMemsetAsync_ptsz(void* destination, int value, std::size_t bytes, cudaStream_t stream) {
  return cudaMemsetAsync(destination, value, bytes, per_thread(stream));
}
GPUSIM_API cudaError_t cudaMemset2D(void* destination, std::size_t pitch, int value, std::size_t width,
                                    std::size_t height) {
  ApiCall call("cudaMemset2D");
  return fill(call, {destination, value, width, height, pitch, nullptr});
}
GPUSIM_API cudaError_t cudaMemset2DAsync(void* destination, std::size_t pitch, int value, std::size_t width,
                                         std::size_t height, cudaStream_t stream) {
  ApiCall call("cudaMemset2DAsync");
  return fill(call, {destination, value, width, height, pitch, stream});
}
GPUSIM_API cudaError_t cudaMemset2DAsync_ptsz(void* destination, std::size_t pitch, int value, std::size_t width,
                                              std::size_t height, cudaStream_t stream) {
  return cudaMemset2DAsync(destination, pitch, value, width, height, per_thread(stream));
}
