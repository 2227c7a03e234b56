#include "runtime/cluster/member_id.h"

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

namespace trifold {

namespace {

std::string host_name() {
  std::array<char, 64> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

std::string name_of_this_host() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code none;
  const std::string network = std::filesystem::read_symlink("/proc/self/ns/net", none).string();  // "net:[4026531840]"
  return fmt::format("{} {} {}", host_name(), boot, network);
}

std::string new_member_id(const std::string& role) {
  static std::atomic<int> joined{0};
  // Process ids come again; together with the time they do not.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("{}-{}-{}-{:x}-{}", role, host_name(), ::getpid(),
                     std::chrono::duration_cast<std::chrono::milliseconds>(now).count(), ++joined);
}

std::string short_name(const std::string& member_id) {
  const std::size_t counter = member_id.rfind('-');
  if (counter == std::string::npos || counter == 0) return member_id;
  const std::size_t time = member_id.rfind('-', counter - 1);
  return time == std::string::npos ? member_id : member_id.substr(0, time);
}

}  // namespace trifold
