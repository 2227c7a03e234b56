#include "kernels/gpu_plugin.h"

#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>

namespace trifold {
namespace {

constexpr const char* kLibrary = "libtrifold_cuda.so";

// Beside the program, one folder up (programs of the tests), or where it is installed; TRIFOLD_GPU_PLUGIN names
// another.
std::vector<std::filesystem::path> candidates() {
  if (const char* given = std::getenv("TRIFOLD_GPU_PLUGIN")) return {given};
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  return {folder / kLibrary, folder.parent_path() / kLibrary, folder / TRIFOLD_PLUGIN_FOLDER / kLibrary};
}

GpuSearch search() {
  for (const std::filesystem::path& path : candidates()) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return {nullptr, fmt::format("the CUDA backend cannot be loaded: {}", ::dlerror())};
    using Make = GpuPlugin* (*)(std::string*);
    const auto make = reinterpret_cast<Make>(::dlsym(library, "trifold_gpu_plugin"));
    if (make == nullptr) return {nullptr, fmt::format("'{}' is no backend of Trifold", path.string())};
    std::string why_not;
    GpuPlugin* plugin = make(&why_not);
    return {plugin, why_not};
  }
  return {nullptr, fmt::format("the CUDA backend, {}, is not beside the program; tools/build makes it where a CUDA "
                               "toolkit with cuDNN and NCCL is installed",
                               kLibrary)};
}

}  // namespace

const GpuSearch& find_gpus() {
  static const GpuSearch result = search();
  return result;
}

}  // namespace trifold
