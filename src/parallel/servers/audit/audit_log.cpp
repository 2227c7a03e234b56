#include "parallel/servers/audit/audit_log.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <xxhash.h>

#include "core/error.h"

namespace trifold {
namespace {

// Of all that goes on with a slice: two states with one digest are the same state, whoever made them.
std::string digest_of(const SliceState& state) {
  std::uint64_t digest = 0;
  const auto add = [&](const auto& numbers) {
    digest = XXH3_64bits_withSeed(numbers.data(), numbers.size() * sizeof(*numbers.data()), digest);
  };
  add(std::array{state.version, state.updates});
  add(state.applied);
  add(*state.values);
  for (const SharedFloats& of_optimizer : state.states) add(*of_optimizer);
  return fmt::format("{:016x}", digest);
}

std::string named_state(const char* what, int slice, const SliceState& state) {
  return fmt::format(R"({{"{}":{},"version":{},"digest":"{}")", what, slice, state.version, digest_of(state));
}

}  // namespace

AuditLog::AuditLog(const std::filesystem::path& folder, const std::string& member)
    : file_((folder / (member + ".jsonl")).string()) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0)
    fail_input("cannot write the audit log '{}': {}; choose another folder", file_, std::strerror(errno));
}

AuditLog::~AuditLog() {
  ::close(descriptor_);
}

void AuditLog::acknowledged(ShardClock push, std::span<const int> slices, bool late) {
  write(fmt::format(R"({{"shard":{},"clock":{},"slices":[{}]{}}})", push.shard, push.clock, fmt::join(slices, ","),
                    late ? R"(,"late":true)" : ""));
}

void AuditLog::owns(int slice, const SliceState& state, const Owner& owner) {
  write(fmt::format(R"({},"epoch":{},"from":{},"first":{}}})", named_state("own", slice, state), owner.epoch,
                    nlohmann::json(owner.from).dump(), owner.first));
}

void AuditLog::changed(int slice, const SliceState& state, std::span<const ShardClock> pushes) {
  std::string list;
  for (const auto& [shard, clock] : pushes) list += fmt::format("{}[{},{}]", list.empty() ? "" : ",", shard, clock);
  write(fmt::format(R"({},"pushes":[{}]}})", named_state("slice", slice, state), list));
}

void AuditLog::ends_with(int slice, const SliceState& state, std::int64_t epoch) {
  write(fmt::format(R"({},"epoch":{}}})", named_state("final", slice, state), epoch));
}

void AuditLog::write(std::string line) {
  line += '\n';
  ssize_t written = -1;
  do written = ::write(descriptor_, line.data(), line.size());
  while (written < 0 && errno == EINTR);
  // Whoever goes on without having said it would make the log a lie.
  if (written != static_cast<ssize_t>(line.size()))
    fail_runtime("cannot write the audit log '{}': {}", file_, written < 0 ? std::strerror(errno) : "the disk is full");
}

}  // namespace trifold
