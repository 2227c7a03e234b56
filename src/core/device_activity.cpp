#include "core/device_activity.h"

namespace trifold {

LaunchCounts& LaunchCounts::operator+=(const LaunchCounts& other) {
  warp_instructions += other.warp_instructions;
  lane_instructions += other.lane_instructions;
  read_bytes += other.read_bytes;
  write_bytes += other.write_bytes;
  read_sectors += other.read_sectors;
  write_sectors += other.write_sectors;
  shared_accesses += other.shared_accesses;
  shared_conflicts += other.shared_conflicts;
  return *this;
}

}  // namespace trifold
