// Tensors in several safetensors files, as Hugging Face's programs keep large models: model-00001-of-00003.safetensors
// and so on, and model.safetensors.index.json, which says where each tensor lies:
//   {"metadata": {"total_size": 5}, "weight_map": {"conv1.weight": "model-00001-of-00003.safetensors"}}
// The reader trusts nothing: whatever is wrong with an index is one Error that names it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/safetensors.h"

namespace trifold {

struct SafetensorsIndex {
  SafetensorsMetadata metadata;                   // its texts
  std::optional<std::uint64_t> total_bytes = {};  // of all tensors
  std::map<std::string, std::string> file_of;     // by tensor: a file in the index's folder
};

SafetensorsIndex parse_safetensors_index(std::string_view text, const std::string& name);
std::string encode_safetensors_index(const SafetensorsIndex& index);

// By its name.
bool is_safetensors_index(const std::filesystem::path& file);
std::filesystem::path index_of(const std::filesystem::path& file);  // m.safetensors -> m.safetensors.index.json
// m.safetensors -> m-00001-of-00003.safetensors, counted from 0.
std::string shard_name(const std::filesystem::path& file, std::size_t shard, std::size_t shards);

// Tensors in file order, in runs of at most so many bytes; a larger tensor is a run of its own.
std::vector<std::vector<NamedTensor>> split_into_shards(std::span<const NamedTensor> tensors, std::int64_t bytes);

// One file, or shards and their index where it would be larger than `shard_bytes`. Every file is atomic, the index
// comes last.
void write_sharded_safetensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors,
                               const SafetensorsMetadata& metadata, std::int64_t shard_bytes);

}  // namespace trifold
