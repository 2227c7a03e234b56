// A file that appears under its name complete or not at all. Bytes go to a hidden temporary in the same directory;
// commit() makes them durable and renames. Without commit() the temporary is removed and the old file stays as it was.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/file_descriptor.h"

namespace trifold {

class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path target);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  AtomicFile(AtomicFile&&) = delete;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  // Returns when file and name would survive a power cut.
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  FileDescriptor descriptor_;
  bool committed_ = false;
};

void write_file_atomically(const std::filesystem::path& target, std::string_view contents);

// True for the temporaries of files in this directory: what a killed process leaves behind.
bool is_atomic_temporary(const std::filesystem::path& file);

// Makes names created in or renamed into the directory durable.
void sync_directory(const std::filesystem::path& directory);

}  // namespace trifold
