// Peer access between devices: all simulated devices can reach each other once it is enabled.
#include <cuda_runtime_api.h>

#include "cudart/api_call.h"
#include "engine/peer_access.h"

using namespace gpusim;

GPUSIM_API cudaError_t cudaDeviceCanAccessPeer(int* can_access, int device, int peer) {
  ApiCall call("cudaDeviceCanAccessPeer");
  if (!is_device(device) || !is_device(peer)) return call.fail(cudaErrorInvalidDevice);
  *can_access = device != peer;
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  ApiCall call("cudaDeviceEnablePeerAccess");
  if (const auto lost = call.device_lost()) return *lost;
  if (flags != 0) return call.refuse(cudaErrorInvalidValue, "flags are reserved");
  if (!is_device(peer) || peer == current_device()) return call.fail(cudaErrorInvalidDevice);
  if (peer_access_enabled(current_device(), peer)) return call.fail(cudaErrorPeerAccessAlreadyEnabled);
  set_peer_access(current_device(), peer, true);
  return cudaSuccess;
}

GPUSIM_API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  ApiCall call("cudaDeviceDisablePeerAccess");
  if (const auto lost = call.device_lost()) return *lost;
  if (!is_device(peer) || peer == current_device()) return call.fail(cudaErrorInvalidDevice);
  if (!peer_access_enabled(current_device(), peer)) return call.fail(cudaErrorPeerAccessNotEnabled);
  set_peer_access(current_device(), peer, false);
  return cudaSuccess;
}
