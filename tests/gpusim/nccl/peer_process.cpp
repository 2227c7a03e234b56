#include "nccl/peer_process.h"

#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include <unistd.h>

namespace gpusim {
namespace {

struct ProcessState {
  char state = '?';
  std::uint64_t ticks = 0;
};

// The fields of /proc/<pid>/stat behind the name, which may hold anything.
std::optional<ProcessState> state_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  ProcessState found;
  std::string skipped;
  fields >> found.state;
  for (int i = 0; i < 10; ++i) fields >> skipped;  // parent ... major faults of children
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  fields >> user >> system;
  found.ticks = user + system;
  return found;
}

}  // namespace

bool has_ended(pid_t process) {
  if (process == getpid()) return false;
  const auto found = state_of(process);
  return !found || found->state == 'Z' || found->state == 'X';
}

std::uint64_t cpu_ms(pid_t process) {
  const auto found = state_of(process);
  return found ? found->ticks * 1000 / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK)) : 0;
}

double seconds_until_deadlock() {
  const char* seconds = std::getenv("GPUSIM_DEADLOCK_S");
  return seconds ? std::atof(seconds) : 5.0;
}

}  // namespace gpusim
