// GPUs, as far as the program itself knows them. The CUDA backend is a library of its own that is loaded when the
// program starts to look for GPUs: without a GPU, a driver or CUDA's libraries the program still runs, on the CPU.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/device_activity.h"
#include "kernels/backend.h"
#include "kernels/device_groups.h"

namespace trifold {

struct GpuInfo {
  std::string device;  // "cuda#0"
  std::string name;    // "NVIDIA H100 80GB HBM3"
  std::size_t memory_bytes = 0;
  int multiprocessors = 0;
  std::string capability;  // "9.0"
};

class GpuPlugin {
 public:
  GpuPlugin() = default;
  GpuPlugin(const GpuPlugin&) = delete;
  GpuPlugin& operator=(const GpuPlugin&) = delete;
  virtual ~GpuPlugin() = default;

  virtual Backend& backend(bool own_convolutions) = 0;
  virtual std::vector<GpuInfo> gpus() = 0;  // at least one
  virtual Device& device(int index) = 0;    // opened at first use, kept to the end of the process
  // A rank's way to the other ranks' GPUs, not connected yet. `routes` are those that this rank has a part in.
  virtual std::unique_ptr<DeviceGroups> make_groups(const RankGroups& ranks, Device& device,
                                                    std::vector<Route> routes) = 0;
  // Notes what these devices do from now on. One at a time.
  virtual std::unique_ptr<ActivityRecorder> make_recorder(std::vector<Device*> devices) = 0;
  // A name for what this thread gives to GPUs until pop_range(), for tools that watch them (NVTX). They nest.
  virtual void push_range(const std::string& name) = 0;
  virtual void pop_range() noexcept = 0;
};

// A named range, as long as this object lives.
class GpuRange {
 public:
  GpuRange(GpuPlugin& plugin, const std::string& name) : plugin_(plugin) { plugin.push_range(name); }
  ~GpuRange() { plugin_.pop_range(); }
  GpuRange(const GpuRange&) = delete;
  GpuRange& operator=(const GpuRange&) = delete;

 private:
  GpuPlugin& plugin_;
};

struct GpuSearch {
  GpuPlugin* plugin = nullptr;  // null: no GPU to be used
  std::string why_not;          // then: the reason, in a sentence
};
const GpuSearch& find_gpus();  // looks once

}  // namespace trifold

// What the library exports: the plugin, or null with the reason.
extern "C" trifold::GpuPlugin* trifold_gpu_plugin(std::string* why_not);
