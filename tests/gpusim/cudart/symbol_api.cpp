// __device__ and __constant__ variables by their host names, on the current device.
#include <cuda_runtime_api.h>

#include "cudart/copies.h"
#include "cudart/registration.h"

using namespace gpusim;

namespace {

struct SymbolCopy {
  const void* symbol = nullptr;
  std::size_t bytes = 0;
  std::size_t offset = 0;
  cudaMemcpyKind kind = cudaMemcpyDefault;
  cudaStream_t stream = nullptr;
  bool asynchronous = false;
};

// Null: refused, call.error is set.
void* place_in_symbol(ApiCall& call, const SymbolCopy& args) {
  GlobalVariable variable;
  if (call.device_lost()) return nullptr;
  if (!variable_on(args.symbol, current_device(), variable)) {
    call.refuse(cudaErrorInvalidSymbol, "not a __device__ or __constant__ variable of this program");
    return nullptr;
  }
  if (args.offset + args.bytes > variable.bytes) {
    call.refuse(cudaErrorInvalidValue,
                std::to_string(args.bytes) + " bytes at " + std::to_string(args.offset) + " of a variable of " +
                    std::to_string(variable.bytes),
                Finding::out_of_bounds);
    return nullptr;
  }
  return reinterpret_cast<void*>(variable.address + args.offset);
}

cudaError_t copy_to(const char* name, const void* source, const SymbolCopy& args) {
  ApiCall call(name);
  void* place = place_in_symbol(call, args);
  if (!place) return call.error;
  return copy(call, {.destination = place,
                     .source = source,
                     .row_bytes = args.bytes,
                     .kind = args.kind,
                     .stream = args.stream,
                     .asynchronous = args.asynchronous});
}

cudaError_t copy_from(const char* name, void* destination, const SymbolCopy& args) {
  ApiCall call(name);
  void* place = place_in_symbol(call, args);
  if (!place) return call.error;
  return copy(call, {.destination = destination,
                     .source = place,
                     .row_bytes = args.bytes,
                     .kind = args.kind,
                     .stream = args.stream,
                     .asynchronous = args.asynchronous});
}

}  // namespace

GPUSIM_API cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  ApiCall call("cudaGetSymbolAddress");
  *pointer = place_in_symbol(call, {.symbol = symbol});
  return *pointer ? cudaSuccess : call.error;
}

GPUSIM_API cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  ApiCall call("cudaGetSymbolSize");
  GlobalVariable variable;
  if (const auto lost = call.device_lost()) return *lost;
  if (!variable_on(symbol, current_device(), variable)) {
    return call.refuse(cudaErrorInvalidSymbol, "not a __device__ or __constant__ variable of this program");
  }
  *bytes = variable.bytes;
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, std::size_t bytes, std::size_t offset,
                                          cudaMemcpyKind kind) {
  return copy_to("cudaMemcpyToSymbol", source, {symbol, bytes, offset, kind, nullptr, false});
}
GPUSIM_API cudaError_t cudaMemcpyToSymbol_ptds(const void* symbol, const void* source, std::size_t bytes,
                                               std::size_t offset, cudaMemcpyKind kind) {
  return copy_to("cudaMemcpyToSymbol", source, {symbol, bytes, offset, kind, cudaStreamPerThread, false});
}
GPUSIM_API cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, std::size_t bytes,
                                               std::size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_to("cudaMemcpyToSymbolAsync", source, {symbol, bytes, offset, kind, stream, true});
}
GPUSIM_API cudaError_t cudaMemcpyFromSymbol(void* destination, const void* symbol, std::size_t bytes,
                                            std::size_t offset, cudaMemcpyKind kind) {
  return copy_from("cudaMemcpyFromSymbol", destination, {symbol, bytes, offset, kind, nullptr, false});
}
GPUSIM_API cudaError_t cudaMemcpyFromSymbol_ptds(void* destination, const void* symbol, std::size_t bytes,
                                                 std::size_t offset, cudaMemcpyKind kind) {
  return copy_from("cudaMemcpyFromSymbol", destination, {symbol, bytes, offset, kind, cudaStreamPerThread, false});
}
GPUSIM_API cudaError_t cudaMemcpyFromSymbolAsync(void* destination, const void* symbol, std::size_t bytes,
                                                 std::size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_from("cudaMemcpyFromSymbolAsync", destination, {symbol, bytes, offset, kind, stream, true});
}
