#include "runtime/ps/member_id.h"

#include <array>
#include <atomic>
#include <chrono>

#include <fmt/format.h>
#include <unistd.h>

namespace trifold {

std::string new_member_id(const std::string& role) {
  static std::atomic<int> joined{0};
  std::array<char, 64> host{};
  ::gethostname(host.data(), host.size() - 1);
  // Process ids come again; together with the time they do not.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("{}-{}-{}-{:x}-{}", role, host.data(), ::getpid(),
                     std::chrono::duration_cast<std::chrono::milliseconds>(now).count(), ++joined);
}

}  // namespace trifold
