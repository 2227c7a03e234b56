// Ranks that are threads, each with a simulated GPU, and single ops on them.
#pragma once

#include <cstring>
#include <functional>
#include <map>

#include "core/philox.h"
#include "kernels/gpu_plugin.h"
#include "parallel/rank_groups.h"
#include "parallel/rank_team.h"

namespace trifold::test {

inline std::vector<float> drawn(std::size_t count, int rank) {
  std::vector<float> values(count);
  RandomSequence random(3, Purpose::synthetic, 0, static_cast<std::uint64_t>(rank));
  for (float& value : values) value = random.uniform(-1, 1);
  return values;
}

// A tensor in a GPU's memory.
class GpuTensor {
 public:
  GpuTensor(Device& device, const TensorDesc& desc) : device_(&device), desc_(desc), memory_(device, desc_.bytes()) {
    write_bytes(std::vector<std::byte>(desc_.bytes(), std::byte{0xc2}));  // what no test expects
  }
  GpuTensor(Device& device, const Shape& shape) : GpuTensor(device, TensorDesc{shape}) {}
  GpuTensor(Device& device, const Shape& shape, const std::vector<float>& values) : GpuTensor(device, shape) {
    write(values);
  }

  const TensorDesc& desc() const { return desc_; }
  std::byte* data() const { return memory_.data(); }
  void write(const std::vector<float>& values) { device_->upload(data(), values.data(), desc_.bytes()); }
  std::vector<float> read() const {
    std::vector<float> values(desc_.bytes() / sizeof(float));
    device_->download(values.data(), data(), desc_.bytes());
    return values;
  }
  void write_bytes(const std::vector<std::byte>& bytes) { device_->upload(data(), bytes.data(), bytes.size()); }
  std::vector<std::byte> read_bytes() const {
    std::vector<std::byte> bytes(desc_.bytes());
    device_->download(bytes.data(), data(), bytes.size());
    return bytes;
  }

 private:
  Device* device_;
  TensorDesc desc_;
  DeviceMemory memory_;
};

// One op's kernel, bound to its tensors. Memory that it keeps from step to step is zero at first.
class GpuOp {
 public:
  GpuOp(const Op& op, Device& device, const RankGroups& ranks, const GpuTensor* in, const GpuTensor* out)
      : device_(&device) {
    const auto descs = [](const GpuTensor* tensor) {
      return tensor == nullptr ? std::vector<TensorDesc>() : std::vector<TensorDesc>{tensor->desc()};
    };
    const std::vector<TensorDesc> in_descs = descs(in);
    const std::vector<TensorDesc> out_descs = descs(out);
    kernel_ = find_gpus().plugin->backend(false).make(
        {.op = op, .in = in_descs, .out = out_descs, .device = &device, .ranks = &ranks});
    scratch_ = DeviceMemory(device, std::max<std::size_t>(1, kernel_->scratch_bytes() + kernel_->lasting_bytes()));
    if (kernel_->lasting_bytes() > 0) device.clear(scratch_.data(), kernel_->lasting_bytes());
    bind(in, out);
  }

  void bind(const GpuTensor* in, const GpuTensor* out) {
    const auto data = [](const GpuTensor* tensor) {
      return tensor == nullptr ? std::vector<std::byte*>() : std::vector<std::byte*>{tensor->data()};
    };
    kernel_->bind(data(in), data(out), scratch_.data());
  }
  void run() {
    device_->set_step({});
    kernel_->run({});
  }
  Kernel& kernel() { return *kernel_; }

 private:
  Device* device_;
  KernelPtr kernel_;
  DeviceMemory scratch_;
};

struct GpuRank {
  RankGroups& groups;
  Device& device;
  int number() const { return groups.rank(); }
};

// Each rank of the mesh on its own thread and GPU, connected.
inline void on_gpu_ranks(const Mesh& mesh, const std::function<void(const GpuRank&)>& work,
                         const std::map<int, std::vector<Route>>& routes = {}) {
  GpuPlugin& plugin = *find_gpus().plugin;
  const std::vector<std::unique_ptr<RankGroups>> ranks = make_local_ranks(mesh);
  for (const auto& rank : ranks) {
    const auto mine = routes.find(rank->rank());
    rank->set_on_device(plugin.make_groups(*rank, plugin.device(rank->rank()),
                                           mine == routes.end() ? std::vector<Route>() : mine->second));
  }
  RankTeam team({.ranks = mesh.size(), .on_failure = [&](const std::string& why) {
                   for (const auto& rank : ranks) rank->abort(why);
                 }});
  team.run([&](int rank) {
    RankGroups& groups = *ranks[static_cast<std::size_t>(rank)];
    groups.on_device()->connect();
    work({groups, plugin.device(rank)});
    groups.on_device()->finish();
    groups.on_device()->leave();
  });
}

}  // namespace trifold::test
