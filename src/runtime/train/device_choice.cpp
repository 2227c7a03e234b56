#include "runtime/train/device_choice.h"

#include <cstdlib>

#include "core/error.h"
#include "kernels/gpu_plugin.h"

namespace trifold {
namespace {

int gpu_count() {
  return static_cast<int>(find_gpus().plugin->gpus().size());
}

std::string gpus_there() {
  const int count = gpu_count();
  return fmt::format("there {} {} GPU{}", count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
}

}  // namespace

bool chooses_gpus(const std::string& name) {
  if (name == "cpu" || name.starts_with("cpu:")) return false;
  const GpuSearch& found = find_gpus();
  if (found.plugin != nullptr) return true;
  if (name == "auto") return false;
  fail_input("plan.device is '{}', but {}; `trifold devices` lists what there is", name, found.why_not);
}

DeviceChoice choose_device(const std::string& name, bool own_kernels, int gpu) {
  if (!chooses_gpus(name)) return {&cpu_backend(), &host_device()};
  if (const std::size_t mark = name.find('#'); mark != std::string::npos) {
    gpu = std::stoi(name.substr(mark + 1));
    if (gpu >= gpu_count())
      fail_input("plan.device is '{}', but {}: cuda#0{}", name, gpus_there(),
                 gpu_count() == 1 ? "" : fmt::format(" to cuda#{}", gpu_count() - 1));
  }
  GpuPlugin& plugin = *find_gpus().plugin;
  return {&plugin.backend(own_kernels), &plugin.device(gpu)};
}

void check_gpus(const std::string& name, int ranks) {
  if (chooses_gpus(name) && ranks > gpu_count())
    fail_input("plan.device is '{}' and the plan has {} ranks, a GPU each, but {}; --devices cpu would work", name,
               ranks, gpus_there());
}

int first_gpu_of_process(const std::string& name, const GpuPlace& place) {
  if (!chooses_gpus(name)) return 0;
  const bool has_its_own = gpu_count() == place.ranks_each && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
  if (place.processes_here > 1 && has_its_own) return 0;
  check_gpus(name, place.processes_here * place.ranks_each);
  return place.place_here * place.ranks_each;
}

}  // namespace trifold
