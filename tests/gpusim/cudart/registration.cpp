#include "cudart/registration.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <stdexcept>
#include <unordered_map>

#include <unistd.h>

#include "cudart/api_call.h"
#include "cudart/device_model.h"
#include "engine/process_exit.h"
#include "ptx/location.h"

namespace gpusim {
namespace {

struct RegisteredVariable {
  std::string name;
  RegisteredModule* module = nullptr;
};

// Filled before main and read until the very end: never destroyed.
struct Registry {
  std::deque<RegisteredModule> modules;
  std::unordered_map<const void*, RegisteredKernel> kernels;
  std::unordered_map<const void*, RegisteredVariable> variables;
};
Registry& registry() {
  static auto* one = new Registry;
  return *one;
}

std::string architectures_of(const RegisteredModule& module) {
  std::string text;
  for (const auto& image : module.images) text += " compute_" + std::to_string(image.architecture);
  return text.empty() ? " none" : text;
}

PtxModule* module_on(RegisteredModule& module, int device) {
  auto& loaded = module.loaded[static_cast<std::size_t>(device)];
  if (loaded) return loaded.get();
  const PtxImage* image = best_image(module.images, compute_capability());
  if (!image) {
    report(Finding::unsupported, "the fat binary has no PTX for compute capability " +
                                     std::to_string(compute_capability()) + ": it has" + architectures_of(module) +
                                     (module.unusable.empty() ? "" : " (" + module.unusable + ")"));
    return nullptr;
  }
  try {
    loaded = load_module(image->text, device);
  } catch (const PtxError& error) {
    report(Finding::unsupported, "PTX: " + error.text);
  }
  return loaded.get();
}

// GPUSIM_COVERAGE, with the process's number for %p: programs that start others write a file each.
std::string coverage_file() {
  std::string file = std::getenv("GPUSIM_COVERAGE");
  if (const std::size_t at = file.find("%p"); at != std::string::npos) file.replace(at, 2, std::to_string(::getpid()));
  return file;
}

void write_coverage_file() {
  const std::lock_guard lock(simulator_lock());
  std::vector<PtxModule*> modules;
  for (auto& module : registry().modules) {
    module_on(module, 0);  // its lines count even if no kernel of it was ever launched
    for (const auto& loaded : module.loaded) {
      if (loaded) modules.push_back(loaded.get());
    }
  }
  write_coverage(modules, coverage_file());
}

// The PTX of every module, for ptxas: <folder>/<number>.ptx. How many there are.
int write_ptx_files(const std::string& folder) {
  const std::lock_guard lock(simulator_lock());
  int number = 0;
  for (const auto& module : registry().modules) {
    const PtxImage* image = best_image(module.images, compute_capability());
    if (image) std::ofstream(folder + '/' + std::to_string(number++) + ".ptx") << image->text;
  }
  return number;
}

RegisteredModule* add_module(const void* wrapper) {
  auto& modules = registry().modules;
  if (modules.empty() && std::getenv("GPUSIM_COVERAGE")) at_process_end(write_coverage_file);
  auto& module = modules.emplace_back();
  module.fat_binary = wrapper;
  try {
    module.images = ptx_images(wrapper);
  } catch (const std::runtime_error& error) {
    module.unusable = error.what();
  }
  return &module;
}

}  // namespace

int compute_capability() {
  if (const char* chosen = std::getenv("GPUSIM_COMPUTE_CAPABILITY")) return std::atoi(chosen);
  constexpr int kOldest = 75;
  int needed = kOldest;
  for (const auto& module : registry().modules) {
    if (module.images.empty()) continue;
    const auto oldest = std::min_element(module.images.begin(), module.images.end(),
                                         [](const auto& a, const auto& b) { return a.architecture < b.architecture; });
    needed = std::max(needed, oldest->architecture);
  }
  return needed;
}

RegisteredKernel* find_registered_kernel(const void* host_stub) {
  const auto found = registry().kernels.find(host_stub);
  return found == registry().kernels.end() ? nullptr : &found->second;
}

PtxKernel* kernel_on(RegisteredKernel& kernel, int device) {
  auto& lowered = kernel.lowered[static_cast<std::size_t>(device)];
  if (lowered) return lowered;
  PtxModule* module = module_on(*kernel.module, device);
  if (!module) return nullptr;
  try {
    lowered = find_kernel(*module, kernel.mangled_name);
    if (!lowered) report(Finding::unsupported, "the PTX has no kernel " + kernel.name);
  } catch (const PtxError& error) {
    report(Finding::unsupported, "PTX of kernel " + kernel.name + ": " + error.text);
  }
  return lowered;
}

int ptx_architecture(const RegisteredKernel& kernel) {
  const PtxImage* image = best_image(kernel.module->images, compute_capability());
  return image ? image->architecture : compute_capability();
}

bool variable_on(const void* host_variable, int device, GlobalVariable& variable) {
  const auto found = registry().variables.find(host_variable);
  if (found == registry().variables.end()) return false;
  PtxModule* module = module_on(*found->second.module, device);
  return module && find_variable(*module, found->second.name, variable);
}

void unload_modules_of(int device) {
  const auto index = static_cast<std::size_t>(device);
  for (auto& module : registry().modules) module.loaded[index].reset();
  for (auto& [stub, kernel] : registry().kernels) kernel.lowered[index] = nullptr;
}

}  // namespace gpusim

using namespace gpusim;

GPUSIM_API void** __cudaRegisterFatBinary(void* wrapper) {
  const std::lock_guard lock(simulator_lock());
  return reinterpret_cast<void**>(add_module(wrapper));
}
GPUSIM_API void __cudaRegisterFatBinaryEnd(void**) {}
GPUSIM_API void __cudaUnregisterFatBinary(void**) {}
GPUSIM_API char __cudaInitModule(void**) {
  return 1;
}

GPUSIM_API void __cudaRegisterFunction(void** module, const char* host_stub, char*, const char* name, int, uint3*,
                                       uint3*, dim3*, dim3*, int*) {
  const std::lock_guard lock(simulator_lock());
  RegisteredKernel kernel;
  kernel.mangled_name = name;
  kernel.name = ptx::demangled_without_arguments(name);
  kernel.module = reinterpret_cast<RegisteredModule*>(module);
  registry().kernels[host_stub] = std::move(kernel);
}

GPUSIM_API void __cudaRegisterVar(void** module, char* host_variable, char*, const char* name, int, std::size_t, int,
                                  int) {
  const std::lock_guard lock(simulator_lock());
  registry().variables[host_variable] = {name, reinterpret_cast<RegisteredModule*>(module)};
}

GPUSIM_API void __cudaRegisterManagedVar(void**, void**, char*, const char* name, int, std::size_t, int, int) {
  report(Finding::unsupported, std::string("__managed__ variable ") + name + ": managed memory is not simulated");
}

extern "C" int gpusim_write_ptx(const char* folder) {
  return gpusim::write_ptx_files(folder);
}
