#include "runtime/checkpoint/atomic_file.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "core/error.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporarySuffix = ".tmp";

fs::path directory_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// Process id and a counter keep two writers of one target apart.
fs::path temporary_name(const fs::path& target) {
  static std::atomic<std::uint64_t> counter{0};
  return directory_of(target) /
         fmt::format(".{}.{}-{}{}", target.filename().string(), ::getpid(), ++counter, kTemporarySuffix);
}

}  // namespace

AtomicFile::AtomicFile(fs::path target) : target_(std::move(target)) {
  // A name can only be taken by a temporary that a killed process with our id left behind: try the next.
  do {
    temporary_ = temporary_name(target_);
    descriptor_ = FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  } while (!descriptor_.is_open() && errno == EEXIST);
  if (!descriptor_.is_open()) fail_runtime("cannot create '{}': {}", target_.string(), system_reason(errno));
}

AtomicFile::~AtomicFile() {
  if (committed_) return;
  descriptor_.close();
  if (::unlink(temporary_.c_str()) != 0) {
    spdlog::warn("cannot remove the temporary file '{}': {}", temporary_.string(), system_reason(errno));
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_all(descriptor_, bytes, target_);
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::commit() {
  TRIFOLD_CHECK(!committed_, "'{}' is committed twice", target_.string());
  // Data before name: a rename that outlives a power cut must not point at bytes that did not.
  if (::fsync(descriptor_.get()) != 0) fail_runtime("cannot write '{}': {}", target_.string(), system_reason(errno));
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    fail_runtime("cannot replace '{}': {}", target_.string(), system_reason(errno));
  }
  committed_ = true;
  descriptor_.close();
  sync_directory(directory_of(target_));
}

void write_file_atomically(const fs::path& target, std::string_view contents) {
  AtomicFile file(target);
  file.write(contents);
  file.commit();
}

bool is_atomic_temporary(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.starts_with('.') && name.ends_with(kTemporarySuffix);
}

void sync_directory(const fs::path& directory) {
  const FileDescriptor descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems cannot sync a directory and say EINVAL; there is nothing better to do on them.
  if (!descriptor.is_open() || (::fsync(descriptor.get()) != 0 && errno != EINVAL)) {
    fail_runtime("cannot make changes in '{}' durable: {}", directory.string(), system_reason(errno));
  }
}

}  // namespace trifold
