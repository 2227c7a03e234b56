// The simulator, where the tests run on it. Found at run time: on a real GPU the same tests run without it.
#pragma once

#include <string>
#include <vector>

#include "gpusim/include/gpusim.h"

namespace trifold::test {

bool on_simulator();

// What the simulator found wrong since the last call; empty: nothing.
std::string take_gpu_reports();

enum class StreamOrder { lazy, eager };
void set_stream_order(StreamOrder order);

// The launches made while this object lives.
class LaunchRecorder {
 public:
  LaunchRecorder();
  ~LaunchRecorder();
  LaunchRecorder(const LaunchRecorder&) = delete;
  LaunchRecorder& operator=(const LaunchRecorder&) = delete;
  std::vector<GpusimLaunch> launches() const;
};

}  // namespace trifold::test
