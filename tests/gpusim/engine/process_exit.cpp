#include "engine/process_exit.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include <unistd.h>

#include "engine/device_memory.h"
#include "engine/report.h"

namespace gpusim {
namespace {

std::vector<std::function<void()>>& end_actions() {
  static auto* actions = new std::vector<std::function<void()>>;
  return *actions;
}

// Runs after all other exit handlers and static destructors, because it is registered before any of them.
void judge(int status, void*) {
  const char* leaks = std::getenv("GPUSIM_LEAKS");
  if (leaks && *leaks == '1') DeviceMemory::get().report_leaks();
  const int count = report_count();
  if (count == 0) return;
  std::fprintf(stderr, "gpusim: %d error%s found\n", count, count == 1 ? "" : "s");
  if (status != 0) return;
  std::fflush(nullptr);
  _exit(kExitCodeWithReports);
}

// on_exit, not atexit: it says what the program was about to return.
__attribute__((constructor)) void watch_process_end() {
  on_exit(judge, nullptr);
}

}  // namespace

void at_process_end(std::function<void()> action) {
  if (end_actions().empty()) {
    std::atexit([] {
      for (const auto& each : end_actions()) each();
    });
  }
  end_actions().push_back(std::move(action));
}

}  // namespace gpusim
