#include "insight/report/environment.h"

#include <chrono>
#include <ctime>
#include <string>

#include <fmt/chrono.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/processor.h"
#include "insight/report/version.h"
#include "kernels/cpu/simd/isa.h"
#include "kernels/gpu_plugin.h"
#include "runtime/checkpoint/atomic_file.h"

namespace trifold {
namespace {

std::string compiler_name() {
#ifdef __clang__
  return __VERSION__;  // says so itself
#else
  return "GCC " __VERSION__;
#endif
}

}  // namespace

nlohmann::ordered_json environment() {
  utsname system{};
  uname(&system);
  nlohmann::ordered_json json = {
      {"trifold", version()},
      {"compiler", compiler_name()},
      {"cpu", processor_name()},
      {"cores", static_cast<std::int64_t>(sysconf(_SC_NPROCESSORS_ONLN))},
      {"instruction_set", cpu::isa_name(cpu::active_isa())},
      {"memory_bytes", static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE)},
      {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
      {"host", system.nodename},
      {"date", fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)))}};
  json["gpus"] = nlohmann::ordered_json::array();
  if (const GpuSearch& found = find_gpus(); found.plugin != nullptr)
    for (const GpuInfo& gpu : found.plugin->gpus()) json["gpus"].push_back(gpu.name);
  return json;
}

void write_environment(const std::filesystem::path& folder) {
  write_file_atomically(folder / "environment.json", environment().dump(2) + "\n");
}

}  // namespace trifold
