#include "core/cuda/cupti_library.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fmt/format.h>

namespace trifold::cuda {
namespace {

// On the library path, beside the runtime, or where toolkits keep it.
std::vector<std::string> candidates() {
  if (const char* given = std::getenv("TRIFOLD_CUPTI")) return {given};
  const std::string name = fmt::format("libcupti.so.{}", CUDART_VERSION / 1000);
  std::vector<std::string> paths = {name};
  Dl_info runtime{};
  if (::dladdr(reinterpret_cast<void*>(&cudaGetDeviceCount), &runtime) != 0) {
    const std::filesystem::path folder = std::filesystem::path(runtime.dli_fname).parent_path();
    paths.push_back((folder / name).string());
    paths.push_back((folder.parent_path() / "extras/CUPTI/lib64" / name).string());
  }
  return paths;
}

template <class Function>
bool find(void* library, const char* name, Function& function, std::string* missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) *missing = name;
  return function != nullptr;
}

}  // namespace

bool CuptiLibrary::find_functions(void* library, std::string* missing) {
  return find(library, "cuptiActivityRegisterCallbacks", register_callbacks, missing) &&
         find(library, "cuptiActivityEnable", enable, missing) &&
         find(library, "cuptiActivityDisable", disable, missing) &&
         find(library, "cuptiActivityFlushAll", flush_all, missing) &&
         find(library, "cuptiActivityGetNextRecord", next_record, missing) &&
         find(library, "cuptiActivityGetNumDroppedRecords", dropped_records, missing) &&
         find(library, "cuptiActivityPushExternalCorrelationId", push_id, missing) &&
         find(library, "cuptiActivityPopExternalCorrelationId", pop_id, missing) &&
         find(library, "cuptiGetResultString", result_string, missing);
}

const CuptiLibrary* CuptiLibrary::load(std::string* why_not) {
  for (const std::string& path : candidates()) {
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      *why_not = fmt::format("CUPTI cannot be loaded: {}", ::dlerror());
      continue;
    }
    static CuptiLibrary loaded;
    std::string missing;
    if (loaded.find_functions(library, &missing)) return &loaded;
    *why_not = fmt::format("'{}' has no {}", path, missing);
  }
  return nullptr;
}

std::string CuptiLibrary::text_of(CUptiResult result) const {
  const char* text = nullptr;
  if (result_string(result, &text) == CUPTI_SUCCESS && text != nullptr) return text;
  return fmt::format("error {}", static_cast<int>(result));
}

}  // namespace trifold::cuda
