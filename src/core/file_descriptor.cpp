#include "core/file_descriptor.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"

namespace trifold {

void FileDescriptor::close() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

FileDescriptor open_for_writing(const std::filesystem::path& file, int flags) {
  constexpr int kPermissions = 0666;  // less the user's umask
  FileDescriptor descriptor(::open(file.c_str(), flags | O_CLOEXEC, kPermissions));
  if (!descriptor.is_open()) fail_runtime("cannot open '{}' for writing: {}", file.string(), system_reason(errno));
  return descriptor;
}

void write_all(const FileDescriptor& descriptor, std::span<const std::byte> bytes, const std::filesystem::path& file) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor.get(), bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_runtime("cannot write '{}': {}", file.string(), system_reason(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

std::string system_reason(int error) {
  return std::generic_category().message(error);
}

}  // namespace trifold
