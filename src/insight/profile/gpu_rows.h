// The lines of a profile of GPUs, from what their recorder saw: what belongs to a node is in its line, copies between
// host and GPU have lines of their own, and so has the time in which a GPU did nothing.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "insight/profile/gpu_specs.h"
#include "insight/profile/profile.h"
#include "runtime/train/parallel_model.h"

namespace trifold {

class GpuRows {
 public:
  // `gpu` may be null: then nothing is held against roofs. Not timed: the lines' times are estimates for it.
  GpuRows(const ParallelModel& model, bool timed, const GpuSpec* gpu);

  // What the ranks gave in a step and what the devices, one a rank, did.
  void add_step(std::span<const SpanLog> ranks, std::span<const DeviceActivity> activities);
  // Of all steps, longest first. `wall_ms` is of timed ones.
  std::vector<ProfileRow> rows(double wall_ms) const;

 private:
  struct Line {
    std::int64_t calls = 0;
    double total = 0, least = 0, most = 0;  // ms
    std::int64_t seen = 0;                  // calls that a device did something for
    GpuFigures figures = {};

    void add(double ms);
  };
  struct NodeKey {
    int rank = 0, chunk = 0, node = 0;
    auto operator<=>(const NodeKey&) const = default;
  };
  void note(const DeviceActivity& activity, GpuFigures& figures) const;
  ProfileRow row_of(const NodeKey& key, const Line& line) const;
  ProfileRow row_of_rest(int rank, DeviceActivity::Kind kind, const Line& line) const;
  void finish(ProfileRow& row, const Line& line, GpuWork work) const;

  const ParallelModel& model_;
  bool timed_;
  const GpuSpec* gpu_;
  std::map<NodeKey, Line> nodes_;
  std::map<std::pair<int, DeviceActivity::Kind>, Line> rest_;  // by rank: what belongs to no node
  std::vector<double> busy_ms_;                                // by rank
  int steps_ = 0;
};

// How long at least one of these was under way.
double busy_ms(std::vector<std::pair<std::uint64_t, std::uint64_t>> begins_and_ends_ns);

}  // namespace trifold
