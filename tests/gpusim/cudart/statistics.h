// The figures that include/gpusim.h gives of every launch, while a test has turned them on.
#pragma once

#include <string>

#include "ptx/kernel.h"

namespace gpusim {

// For the time of one launch: hands the engine a place to count into, when statistics are on.
class LaunchRecord {
 public:
  LaunchRecord(const std::string& kernel, Launch& launch);
  ~LaunchRecord();
  LaunchRecord(const LaunchRecord&) = delete;
  LaunchRecord& operator=(const LaunchRecord&) = delete;

 private:
  const Launch& launch_;
  std::string kernel_;
  GpusimLaunch counted_ = {};
};

// Keeps the figures of every launch for gpusim_launch_counters, too.
void count_launches_for_tools(bool on);

}  // namespace gpusim
