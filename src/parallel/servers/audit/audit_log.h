// What a member of a cluster swears to, line by line, in a file of its own: a worker, which pushes servers have
// acknowledged; a server, which slices it came to own, what is in each new version of them, and which versions were the
// last. A line is one write(), made before anybody else can know what it says, so a process that is killed has said all
// that it has done. audit_check.h proves from the files of a job that nothing acknowledged was lost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "parallel/servers/server/slice_state.h"

namespace trifold {

// A push, as far as one slice is concerned.
struct ShardClock {
  int shard = 0;
  std::int64_t clock = 0;

  auto operator<=>(const ShardClock&) const = default;
};

// One thread uses it.
class AuditLog {
 public:
  // Writes <folder>/<member>.jsonl; the folder is made where there is none.
  AuditLog(const std::filesystem::path& folder, const std::string& member);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // `late`: rounds had ended without some of these slices.
  void acknowledged(ShardClock push, std::span<const int> slices, bool late);

  // `first`: it is what the job begins with, as a manager has it; else `from` is the server that had it.
  struct Owner {
    std::int64_t epoch = 0;
    std::string from = {};
    bool first = false;
  };
  void owns(int slice, const SliceState& state, const Owner& owner);
  void changed(int slice, const SliceState& state, std::span<const ShardClock> pushes);
  void ends_with(int slice, const SliceState& state, std::int64_t epoch);

 private:
  void write(std::string line);

  const std::string file_;
  int descriptor_ = -1;
};

}  // namespace trifold
