#include "engine/report.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include <unistd.h>

#include "engine/process_exit.h"
#include "include/gpusim.h"

namespace gpusim {
namespace {

// Never destroyed: reports are still made while the program's static objects go.
struct Reports {
  std::mutex mutex;
  std::vector<std::string> lines;
  Finding last = Finding::unsupported;
};
Reports& reports() {
  static auto* all = new Reports;
  return *all;
}

}  // namespace

const char* name_of(Finding finding) {
  switch (finding) {
    case Finding::out_of_bounds:
      return "out_of_bounds";
    case Finding::use_after_free:
      return "use_after_free";
    case Finding::double_free:
      return "double_free";
    case Finding::misaligned:
      return "misaligned";
    case Finding::uninitialised_read:
      return "uninitialised_read";
    case Finding::host_pointer_in_kernel:
      return "host_pointer_in_kernel";
    case Finding::device_pointer_on_host:
      return "device_pointer_on_host";
    case Finding::stream_race:
      return "stream_race";
    case Finding::host_race:
      return "host_race";
    case Finding::shared_memory_race:
      return "shared_memory_race";
    case Finding::block_race:
      return "block_race";
    case Finding::divergent_barrier:
      return "divergent_barrier";
    case Finding::invalid_launch:
      return "invalid_launch";
    case Finding::peer_access:
      return "peer_access";
    case Finding::invalid_call:
      return "invalid_call";
    case Finding::collective_mismatch:
      return "collective_mismatch";
    case Finding::deadlock:
      return "deadlock";
    case Finding::leak:
      return "leak";
    case Finding::unsupported:
      return "unsupported";
  }
  return "unknown";
}

void report(Finding finding, std::string_view text) {
  std::string line = std::string(name_of(finding)) + ": " + std::string(text);
  std::replace(line.begin(), line.end(), '\n', ' ');  // a report is one line, for the tests that read them
  {
    std::lock_guard lock(reports().mutex);
    reports().lines.push_back(line);
    reports().last = finding;
  }
  std::fprintf(stderr, "gpusim: %s\n", line.c_str());
  const char* stop = std::getenv("GPUSIM_ABORT");
  if (stop && *stop == '1') std::abort();
}

int report_count() {
  std::lock_guard lock(reports().mutex);
  return static_cast<int>(reports().lines.size());
}

Finding last_finding() {
  std::lock_guard lock(reports().mutex);
  return reports().last;
}

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%#llx", static_cast<unsigned long long>(value));
  return text;
}

void fatal(Finding finding, std::string_view text) {
  report(finding, text);
  std::fflush(nullptr);
  _exit(kExitCodeWithReports);
}

}  // namespace gpusim

extern "C" {

int gpusim_report_count() {
  return gpusim::report_count();
}

int gpusim_take_reports(char* text, std::size_t capacity) {
  auto& all = gpusim::reports();
  std::lock_guard lock(all.mutex);
  std::string joined;
  for (const auto& line : all.lines) joined += line + "\n";
  if (text && capacity > 0) {
    const std::size_t bytes = std::min(joined.size(), capacity - 1);
    std::memcpy(text, joined.data(), bytes);
    text[bytes] = '\0';
  }
  const auto count = static_cast<int>(all.lines.size());
  all.lines.clear();
  return count;
}
}
