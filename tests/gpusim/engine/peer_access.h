// Which device may reach which other device's memory in its kernels (cudaDeviceEnablePeerAccess).
#pragma once

namespace gpusim {

bool peer_access_enabled(int device, int peer);  // true for itself
void set_peer_access(int device, int peer, bool enabled);

}  // namespace gpusim
