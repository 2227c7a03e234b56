// A rank's place in the mesh and its way to the others: one communicator an axis.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device_groups.h"
#include "parallel/communicator/communicator.h"
#include "parallel/mesh.h"

namespace trifold {

class RankGroups {
 public:
  using Communicators = std::array<std::unique_ptr<Communicator>, kAxes>;

  RankGroups(const Mesh& mesh, int rank, Communicators communicators)
      : mesh_(mesh), place_(place_of(mesh, rank)), rank_(rank), communicators_(std::move(communicators)) {}

  const Mesh& mesh() const { return mesh_; }
  const MeshPlace& place() const { return place_; }
  int rank() const { return rank_; }
  Communicator& along(Axis axis) const { return *communicators_[static_cast<std::size_t>(axis)]; }

  // Sums of gradients that were begun and not waited for, along the data axis.
  std::vector<Ticket>& overlap_reduction() const { return sums_aside_; }

  // The way between devices that have one of their own; null: there is none, or not yet.
  DeviceGroups* on_device() const { return on_device_.get(); }
  void set_on_device(std::unique_ptr<DeviceGroups> groups) { on_device_ = std::move(groups); }

  // Ends every wait for this rank, and so every other rank's step.
  void abort(const std::string& reason) const {
    for (const auto& communicator : communicators_) communicator->abort(reason);
    if (on_device_) on_device_->abort(reason);
  }

 private:
  Mesh mesh_;
  MeshPlace place_;
  int rank_;
  Communicators communicators_;
  mutable std::vector<Ticket> sums_aside_;  // of the step under way
  std::unique_ptr<DeviceGroups> on_device_;
};

// The communicators of a group's members in this process, or of none.
using MakeGroup = std::function<std::vector<std::unique_ptr<Communicator>>(Axis axis, const std::vector<int>& ranks)>;

// The ranks [first, first + count) of the mesh, which are this process's, one RankGroups each. `make_group` is called
// once for each group of ranks that differ in one axis alone, in the same order in every process.
std::vector<std::unique_ptr<RankGroups>> make_rank_groups(const Mesh& mesh, int first, int count,
                                                          const MakeGroup& make_group);

// All ranks are threads of this process.
std::vector<std::unique_ptr<RankGroups>> make_local_ranks(const Mesh& mesh);

}  // namespace trifold
