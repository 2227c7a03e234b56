// The safetensors format: u64 little-endian header length, JSON header padded with spaces to 8 bytes, raw data. The
// reader trusts nothing: whatever is wrong with a file is one Error that names it. Tensors it returns are views.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "runtime/checkpoint/mapped_file.h"

namespace trifold {

struct NamedTensor {
  std::string name;
  Shape shape = {};
  DType dtype = DType::f32;
  std::span<const std::byte> data = {};  // row-major, little-endian, shape.elements() * size_of(dtype)
};

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsView {
  SafetensorsMetadata metadata;
  std::vector<NamedTensor> tensors;   // by offset; a file of ours keeps each aligned to its element size
  std::span<const std::byte> header;  // everything before the data: length, JSON, padding
  std::span<const std::byte> data;
};

// `name` is what errors call the bytes. The view points into `bytes`.
SafetensorsView parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

// One file; or, of an index (safetensors_index.h), all files that it names, which must hold just what it says.
class SafetensorsFile {
 public:
  struct Part {
    std::filesystem::path file;
    MappedFile mapping;
    SafetensorsView view;
  };

  explicit SafetensorsFile(const std::filesystem::path& file);

  const SafetensorsMetadata& metadata() const { return metadata_; }  // of the file or the index
  std::span<const NamedTensor> tensors() const { return tensors_; }
  const NamedTensor* find(std::string_view name) const;  // null if there is none
  const std::vector<Part>& parts() const { return parts_; }

 private:
  void open_part(const std::filesystem::path& file);
  void open_index(const std::filesystem::path& file);

  std::vector<Part> parts_;
  SafetensorsMetadata metadata_;
  std::vector<NamedTensor> tensors_;  // of all parts
};

// The order in which tensors lie in a file: widest elements first (so that all are aligned), then by name.
std::vector<NamedTensor> in_file_order(std::span<const NamedTensor> tensors);

// The header of a file that holds these tensors in this order; the data of each follows it without gaps.
std::string encode_safetensors_header(std::span<const NamedTensor> tensors, const SafetensorsMetadata& metadata);

// Atomic; streams the tensors from where they are.
void write_safetensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors,
                       const SafetensorsMetadata& metadata);

}  // namespace trifold
