#include "cuda/gpusim_client.h"

#include <dlfcn.h>

#include "kernels/gpu_plugin.h"

namespace trifold::test {
namespace {

// The plugin brings the runtime library in; until it is loaded there is nothing to find.
template <class Function>
Function find(const char* name) {
  static void* const runtime = [] {
    static_cast<void>(find_gpus());
    return ::dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  }();
  return runtime == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(runtime, name));
}

}  // namespace

bool on_simulator() {
  return find<int (*)()>("gpusim_report_count") != nullptr;
}

std::string take_gpu_reports() {
  const auto take = find<int (*)(char*, std::size_t)>("gpusim_take_reports");
  if (take == nullptr) return {};
  std::vector<char> text(1 << 16);
  return take(text.data(), text.size()) == 0 ? std::string() : std::string(text.data());
}

void set_stream_order(StreamOrder order) {
  if (const auto set = find<void (*)(const char*)>("gpusim_set_order"))
    set(order == StreamOrder::lazy ? "lazy" : "eager");
}

LaunchRecorder::LaunchRecorder() {
  if (const auto record = find<void (*)(int)>("gpusim_statistics")) record(1);
}

LaunchRecorder::~LaunchRecorder() {
  if (const auto record = find<void (*)(int)>("gpusim_statistics")) record(0);
}

std::vector<GpusimLaunch> LaunchRecorder::launches() const {
  std::vector<GpusimLaunch> found;
  const auto count = find<int (*)()>("gpusim_launch_count");
  const auto get = find<int (*)(int, GpusimLaunch*)>("gpusim_launch");
  if (count == nullptr || get == nullptr) return found;
  for (int i = 0; i < count(); ++i) {
    GpusimLaunch launch{};
    if (get(i, &launch) == 0) found.push_back(launch);
  }
  return found;
}

}  // namespace trifold::test
