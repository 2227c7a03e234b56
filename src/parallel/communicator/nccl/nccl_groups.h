// A rank's links to other GPUs: one for each axis of the mesh in which it is not alone, and one for each route of the
// pipeline. Kernels take their link when they run; programs are compiled before the ranks are connected.
//
// Sums and gatherings, and receiving, are work of the compute stream: what follows needs their result. All ranks of an
// axis have the same of them in the same order, so none waits for another that cannot come.
//
// Gradients of a bucket are added up on the communication stream while the compute stream goes on with backward work,
// through a link of their own: what batch norm exchanges meanwhile along the same axis must not wait for them.
//
// Sending has a stream of its own for each route, since NCCL's send may last until the other side receives. Two stages
// send to each other at the same time (1f1b: an activation forward, a gradient back) and receive later; were a send
// work of the compute stream, each would keep the other from coming to its receive. As it is, the compute stream waits
// for a send only where its memory is wanted again: where a rank of the host waits, too, and for the same messages. A
// route is one pair of parts of the network, not of stages: with several parts on a stage (interleaved) messages of
// different pairs overtake each other, and what waits first in a stream would hold up the one that the other side
// needs. Within a route both sides have one order (stage_cut.cpp).
//
// A send that waits keeps the few blocks it runs in. There are as many of them as routes that a stage sends on, which
// is far from filling a GPU, so that what they wait for always finds room.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <vector>

#include "core/cuda/cuda_device.h"
#include "kernels/device_groups.h"
#include "parallel/communicator/nccl/nccl_link.h"
#include "parallel/rank_groups.h"

namespace trifold::cuda {

class NcclGroups final : public DeviceGroups {
 public:
  NcclGroups(const RankGroups& ranks, CudaDevice& device, std::vector<Route> routes);

  void connect() override;
  void finish() override;
  void leave() override;
  void abort(const std::string& reason) override;

  NcclLink& along(Axis axis) { return axes_[static_cast<std::size_t>(axis)]; }
  NcclLink& for_gradients() { return gradients_; }

  // Sends what the compute stream has written so far. `sent` is recorded when the memory is free again.
  void send(int route, std::span<const std::byte> data, cudaEvent_t sent);
  void receive(int route, std::span<std::byte> data);

 private:
  struct RouteLink {
    Route route;
    bool to_itself = false;  // both parts are this rank's: NCCL has no link from a GPU to itself
    std::deque<const std::byte*> waiting = {};
    NcclLink link;
    Stream stream;  // of the side that sends
    Event ready;    // what it sends has been written
  };
  void connect_along(Axis axis, NcclLink& link);
  void connect_route(RouteLink& route);

  const RankGroups& ranks_;
  CudaDevice& device_;
  std::array<NcclLink, kAxes> axes_;
  NcclLink gradients_;               // along the data axis
  std::map<int, RouteLink> routes_;  // by number
};

// Those of the ranks that a kernel was made for.
NcclGroups& nccl_groups(const RankGroups* ranks);

}  // namespace trifold::cuda
