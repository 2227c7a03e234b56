#include "cudart/statistics.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/streams.h"
#include "include/gpusim_tools.h"

namespace gpusim {
namespace {

struct Statistics {
  bool on = false;
  std::vector<GpusimLaunch> launches;
  bool counts_for_tools = false;
  std::unordered_map<std::int64_t, GpusimLaunch> by_operation;  // until a tool takes them
};
Statistics& statistics() {
  static auto* one = new Statistics;
  return *one;
}

void copy(const Dim3& from, std::uint32_t (&to)[3]) {
  to[0] = from.x;
  to[1] = from.y;
  to[2] = from.z;
}

}  // namespace

LaunchRecord::LaunchRecord(const std::string& kernel, Launch& launch) : launch_(launch), kernel_(kernel) {
  if (statistics().on || statistics().counts_for_tools) launch.statistics = &counted_;
}

LaunchRecord::~LaunchRecord() {
  if (!launch_.statistics) return;
  kernel_.copy(counted_.kernel, sizeof counted_.kernel - 1);
  counted_.kernel[std::min(kernel_.size(), sizeof counted_.kernel - 1)] = '\0';
  copy(launch_.grid, counted_.grid);
  copy(launch_.block, counted_.block);
  if (statistics().on) statistics().launches.push_back(counted_);
  if (statistics().counts_for_tools) statistics().by_operation[current_operation()->id] = counted_;
}

void count_launches_for_tools(bool on) {
  const std::lock_guard lock(simulator_lock());
  statistics().counts_for_tools = on;
  statistics().by_operation.clear();
}

}  // namespace gpusim

extern "C" {

void gpusim_statistics(int on) {
  const std::lock_guard lock(gpusim::simulator_lock());
  auto& all = gpusim::statistics();
  if (on && !all.on) all.launches.clear();
  all.on = on != 0;
}

int gpusim_launch_count() {
  const std::lock_guard lock(gpusim::simulator_lock());
  return static_cast<int>(gpusim::statistics().launches.size());
}

int gpusim_launch(int index, GpusimLaunch* launch) {
  const std::lock_guard lock(gpusim::simulator_lock());
  const auto& launches = gpusim::statistics().launches;
  if (index < 0 || static_cast<std::size_t>(index) >= launches.size()) return 1;
  *launch = launches[static_cast<std::size_t>(index)];
  return 0;
}

int gpusim_launch_counters(std::int64_t grid_id, std::uint64_t* figures, int capacity) {
  const std::lock_guard lock(gpusim::simulator_lock());
  auto& counted = gpusim::statistics().by_operation;
  const auto found = counted.find(grid_id);
  if (found == counted.end()) return 0;
  const GpusimLaunch& launch = found->second;
  const std::uint64_t all[] = {launch.warp_instructions,  launch.lane_instructions,   launch.global_read_bytes,
                               launch.global_write_bytes, launch.global_read_sectors, launch.global_write_sectors,
                               launch.shared_accesses,    launch.shared_conflicts,    launch.atomics,
                               launch.divergent_branches};
  const int known = static_cast<int>(std::size(all));
  std::copy_n(all, std::min(capacity, known), figures);
  counted.erase(found);
  return known;
}
}
