// An open file, closed with its owner, and the two calls that every writer of ours needs. Failures name the file and
// the system's reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace trifold {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { close(); }

  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  void close() noexcept;

 private:
  int descriptor_ = -1;
};

// For files that we make. `flags` as open(2) takes them; close-on-exec is added.
FileDescriptor open_for_writing(const std::filesystem::path& file, int flags);

// All of the bytes, however many calls it takes. `file` is for the message.
void write_all(const FileDescriptor& descriptor, std::span<const std::byte> bytes, const std::filesystem::path& file);

// The system's sentence for an errno value.
std::string system_reason(int error);

}  // namespace trifold
