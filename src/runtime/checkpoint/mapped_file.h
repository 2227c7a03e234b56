// A file's bytes, mapped read-only for as long as the object lives. Nobody may shorten the file meanwhile (our own
// writers replace files by rename, which leaves existing mappings whole).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

namespace trifold {

class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& file);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;  // empty for an empty file, which cannot be mapped
};

}  // namespace trifold
