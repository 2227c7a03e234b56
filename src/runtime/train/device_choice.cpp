#include "runtime/train/device_choice.h"

#include "kernels/gpu_plugin.h"
#include "runtime/core/error.h"

namespace trifold {

DeviceChoice choose_device(const std::string& name, bool own_kernels) {
  const DeviceChoice cpu = {&cpu_backend(), &host_device()};
  if (name == "cpu" || name.starts_with("cpu:")) return cpu;
  const GpuSearch& found = find_gpus();
  if (found.plugin == nullptr) {
    if (name == "auto") return cpu;
    fail_input("plan.device is '{}', but {}; `trifold devices` lists what there is", name, found.why_not);
  }
  const std::size_t colon = name.find(':');
  const int index = colon == std::string::npos ? 0 : std::stoi(name.substr(colon + 1));
  const auto count = static_cast<int>(found.plugin->gpus().size());
  if (index >= count)
    fail_input("plan.device is '{}', but there {} {} GPU{}: cuda:0{}", name, count == 1 ? "is" : "are", count,
               count == 1 ? "" : "s", count == 1 ? "" : fmt::format(" to cuda:{}", count - 1));
  return {&found.plugin->backend(own_kernels), &found.plugin->device(index)};
}

}  // namespace trifold
