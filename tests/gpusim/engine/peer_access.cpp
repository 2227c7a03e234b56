#include "engine/peer_access.h"

#include "engine/device_memory.h"

namespace gpusim {
namespace {
bool enabled_peers[kMaxDevices][kMaxDevices] = {};
}

bool peer_access_enabled(int device, int peer) {
  return device == peer || enabled_peers[device][peer];
}
void set_peer_access(int device, int peer, bool enabled) {
  enabled_peers[device][peer] = enabled;
}

}  // namespace gpusim
