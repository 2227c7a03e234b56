// What a device did with the work it was given: every kernel, copy and fill, under the tag of the work it belongs to.
// A recorder is there while somebody profiles; it costs nothing when there is none.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trifold {

class Device;

// What a simulated GPU counts of a launch instead of a time. The figures of a launch never vary.
struct LaunchCounts {
  double warp_instructions = 0;
  double lane_instructions = 0;  // of active lanes
  double read_bytes = 0;         // of global memory, asked for by active lanes
  double write_bytes = 0;
  double read_sectors = 0;  // of 32 bytes, once for each warp instruction that touches them
  double write_sectors = 0;
  double shared_accesses = 0;   // warp instructions on shared memory
  double shared_conflicts = 0;  // extra passes of these

  LaunchCounts& operator+=(const LaunchCounts& other);
  bool operator==(const LaunchCounts&) const = default;
};

struct DeviceActivity {
  enum class Kind : std::uint8_t {
    kernel,
    copy_in,   // from the host
    copy_out,  // to the host
    copy,      // within the device, or to another one
    fill,
    work,  // all that was given under the tag, as one: where single kernels cannot be seen
  };
  Kind kind = Kind::kernel;
  int device = 0;         // its place among the recorder's devices
  std::uint64_t tag = 0;  // 0: given outside of tagged work
  std::string name = {};  // of a kernel, without its arguments
  std::array<int, 3> grid = {};
  std::array<int, 3> block = {};
  int registers = 0;              // a thread; 0: not known
  std::int64_t shared_bytes = 0;  // a block
  std::int64_t bytes = 0;         // copied or filled
  std::uint64_t begin_ns = 0;     // on the device's clock
  std::uint64_t end_ns = 0;
  std::optional<LaunchCounts> counts = {};  // of simulated GPUs

  double ms() const { return static_cast<double>(end_ns - begin_ns) / 1e6; }
};

class ActivityRecorder {
 public:
  ActivityRecorder() = default;
  ActivityRecorder(const ActivityRecorder&) = delete;
  ActivityRecorder& operator=(const ActivityRecorder&) = delete;
  virtual ~ActivityRecorder() = default;

  virtual std::string method() const = 0;   // "CUPTI", "CUDA events"
  virtual std::string why_not() const = 0;  // why it is not a better method, in a sentence; "" of the best
  virtual bool simulated() const = 0;       // times mean nothing; launches may have counts

  // Around work, on the thread that gives it. Tags do not nest.
  virtual void enter(Device& device, std::uint64_t tag) = 0;
  virtual void leave(Device& device) noexcept = 0;
  // Of all work given since the last time; waits for it.
  virtual std::vector<DeviceActivity> take() = 0;
};

}  // namespace trifold
