// The registry's state as the manager keeps it on disk, so that a restarted one goes on with it. The file is whole at
// any moment: the old state or the new one.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "parallel/servers/registry/registry.h"

namespace trifold {

struct RegistryState {
  struct Entry {
    std::string text;
    std::int64_t revision = 0;
    LeaseId lease = 0;

    bool operator==(const Entry&) const = default;
  };

  std::int64_t revision = 0;
  LeaseId last_lease = 0;  // given: never used again
  std::map<LeaseId, std::chrono::milliseconds> leases = {};
  std::map<std::string, Entry> entries = {};  // by name

  bool operator==(const RegistryState&) const = default;
};

// Returns when it would survive a power cut.
void save_registry(const RegistryState& state, const std::filesystem::path& file);

// Null: there is no such file. A damaged one is an Error.
std::optional<RegistryState> load_registry(const std::filesystem::path& file);

}  // namespace trifold
