// trifold devices: what programs can run on here, and why there is no GPU where there is none.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "core/parallel.h"
#include "insight/profile/machine_roofs.h"
#include "kernels/cpu/simd/isa.h"
#include "kernels/gpu_plugin.h"

namespace trifold {
namespace {

void print_devices(bool as_json, bool measure) {
  const GpuSearch& found = find_gpus();
  const std::vector<GpuInfo> gpus = found.plugin == nullptr ? std::vector<GpuInfo>() : found.plugin->gpus();
  const char* isa = cpu::isa_name(cpu::active_isa());
  if (as_json) {
    nlohmann::json json = {{"cpu", {{"threads", thread_count()}, {"instruction_set", isa}}}};
    json["gpus"] = nlohmann::json::array();
    for (const GpuInfo& gpu : gpus)
      json["gpus"].push_back({{"device", gpu.device},
                              {"name", gpu.name},
                              {"memory_bytes", gpu.memory_bytes},
                              {"multiprocessors", gpu.multiprocessors},
                              {"capability", gpu.capability}});
    if (gpus.empty()) json["why_no_gpu"] = found.why_not;
    if (measure)
      json["roofs"] = nlohmann::json::parse(to_json_text(roofs_of_machine(thread_count(), roofs_file(), true)));
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("cpu      {} threads, {}\n", thread_count(), isa);
  for (const GpuInfo& gpu : gpus)
    fmt::print("{:<8} {}, {:.1f} GB, {} multiprocessors, compute capability {}\n", gpu.device, gpu.name,
               static_cast<double>(gpu.memory_bytes) / 1e9, gpu.multiprocessors, gpu.capability);
  if (gpus.empty()) fmt::print("no GPU: {}\n", found.why_not);
  if (measure) fmt::print("measured: {}\n", to_text(roofs_of_machine(thread_count(), roofs_file(), true)));
}

}  // namespace

void add_devices_command(CLI::App& app) {
  auto* command = app.add_subcommand("devices", "lists the devices that jobs can run on");
  auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "for scripts");
  auto measure = std::make_shared<bool>(false);
  command->add_flag(
      "--measure", *measure,
      "measures what the CPU can do at most (products, memory, sums between ranks) and keeps the best for profile");
  command->callback([as_json, measure] { print_devices(*as_json, *measure); });
}

}  // namespace trifold
