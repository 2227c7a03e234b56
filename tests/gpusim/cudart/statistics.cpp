#include "cudart/statistics.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "engine/streams.h"

namespace gpusim {
namespace {

struct Statistics {
  bool on = false;
  std::vector<GpusimLaunch> launches;
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
  if (statistics().on) launch.statistics = &counted_;
}

LaunchRecord::~LaunchRecord() {
  if (!launch_.statistics) return;
  kernel_.copy(counted_.kernel, sizeof counted_.kernel - 1);
  counted_.kernel[std::min(kernel_.size(), sizeof counted_.kernel - 1)] = '\0';
  copy(launch_.grid, counted_.grid);
  copy(launch_.block, counted_.block);
  statistics().launches.push_back(counted_);
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
}
