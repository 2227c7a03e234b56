#include "parallel/communicator/nccl/nccl_groups.h"

#include "core/error.h"

namespace trifold::cuda {
namespace {

// In a route's link.
constexpr int kSender = 0;
constexpr int kReceiver = 1;

}  // namespace

NcclGroups::NcclGroups(const RankGroups& ranks, CudaDevice& device, std::vector<Route> routes)
    : ranks_(ranks), device_(device) {
  device.make_current();
  for (const Route& route : routes) {
    RouteLink& link = routes_[route.number];
    link.route = route;
    link.to_itself = route.stage == ranks.place().pipeline;
    if (!route.sends || link.to_itself) continue;
    link.stream = make_stream();
    link.ready = make_event();
  }
}

// All ranks go through the axes and then through their routes by number: whoever waits, waits for a rank that is not
// further than itself.
void NcclGroups::connect() {
  device_.make_current();
  for (const Axis axis : {Axis::data, Axis::tensor, Axis::pipeline}) connect_along(axis, along(axis));
  connect_along(Axis::data, gradients_);
  for (auto& [number, route] : routes_) connect_route(route);
}

void NcclGroups::connect_along(Axis axis, NcclLink& link) {
  Communicator& host = ranks_.along(axis);
  if (host.size() == 1) return;
  ncclUniqueId id = {};
  if (host.rank() == 0) id = make_nccl_id();
  host.wait(host.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0));
  link.connect(id, host.rank(), host.size());
}

void NcclGroups::connect_route(RouteLink& route) {
  if (route.to_itself) return;
  Communicator& host = ranks_.along(Axis::pipeline);
  ncclUniqueId id = {};
  const auto bytes = std::as_writable_bytes(std::span(&id, 1));
  if (route.route.sends) id = make_nccl_id();
  host.wait(route.route.sends ? host.send(bytes, route.route.stage) : host.receive(bytes, route.route.stage));
  route.link.connect(id, route.route.sends ? kSender : kReceiver, 2);

  // NCCL joins two ranks at their first message, in which the host waits for the other side. In a step it must not.
  const DeviceMemory message(device_, 1);
  device_.clear(message.data(), 1);
  if (route.route.sends) {
    const Event sent = make_event();
    send(route.route.number, {message.data(), 1}, sent.get());
    TRIFOLD_CUDA(cudaEventSynchronize(sent.get()));
  } else {
    receive(route.route.number, {message.data(), 1});
    device_.synchronize();
  }
}

void NcclGroups::send(int route, std::span<const std::byte> data, cudaEvent_t sent) {
  RouteLink& link = routes_.at(route);
  if (link.to_itself) {
    link.waiting.push_back(data.data());
    TRIFOLD_CUDA(cudaEventRecord(sent, device_.compute()));
    return;
  }
  TRIFOLD_CUDA(cudaEventRecord(link.ready.get(), device_.compute()));
  TRIFOLD_CUDA(cudaStreamWaitEvent(link.stream.get(), link.ready.get(), 0));
  link.link.send(data, kReceiver, link.stream.get());
  TRIFOLD_CUDA(cudaEventRecord(sent, link.stream.get()));
}

void NcclGroups::receive(int route, std::span<std::byte> data) {
  RouteLink& link = routes_.at(route);
  if (!link.to_itself) return link.link.receive(data, kSender, device_.compute());
  TRIFOLD_CHECK(!link.waiting.empty(), "nothing was sent on route {}", route);
  TRIFOLD_CUDA(
      cudaMemcpyAsync(data.data(), link.waiting.front(), data.size(), cudaMemcpyDeviceToDevice, device_.compute()));
  link.waiting.pop_front();
}

void NcclGroups::finish() {
  device_.synchronize();
  TRIFOLD_CUDA(cudaStreamSynchronize(device_.communication()));
  for (const auto& [number, route] : routes_)
    if (route.stream) TRIFOLD_CUDA(cudaStreamSynchronize(route.stream.get()));
}

void NcclGroups::leave() {
  device_.make_current();
  for (NcclLink& link : axes_) link.leave();
  gradients_.leave();
  for (auto& [number, route] : routes_) route.link.leave();
}

void NcclGroups::abort(const std::string& reason) {
  for (NcclLink& link : axes_) link.abort(reason);
  gradients_.abort(reason);
  for (auto& [number, route] : routes_) route.link.abort(reason);
}

NcclGroups& nccl_groups(const RankGroups* ranks) {
  TRIFOLD_CHECK(ranks != nullptr && ranks->on_device() != nullptr, "the program was compiled without its ranks");
  return static_cast<NcclGroups&>(*ranks->on_device());
}

}  // namespace trifold::cuda
