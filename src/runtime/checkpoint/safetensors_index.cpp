#include "runtime/checkpoint/safetensors_index.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "runtime/checkpoint/atomic_file.h"

namespace trifold {
namespace {

constexpr std::string_view kIndexSuffix = ".index.json";
constexpr const char* kTotalSizeKey = "total_size";

// A name that leads nowhere else.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

SafetensorsIndex parse_safetensors_index(std::string_view text, const std::string& name) {
  const auto fail = [&]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fail_input("'{}' is not a valid safetensors index: {}", name, fmt::format(format, std::forward<Args>(args)...));
  };
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    fail("it is not a JSON object with a weight_map");
  SafetensorsIndex index;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string() || !is_plain_name(file.get<std::string>()))
      fail("tensor '{}' is not in a file of the same folder", tensor);
    index.file_of.emplace(tensor, file.get<std::string>());
  }
  if (!json.contains("metadata")) return index;
  const nlohmann::json& metadata = json["metadata"];
  if (!metadata.is_object()) fail("its metadata are not an object");
  for (const auto& [key, value] : metadata.items()) {
    if (key == kTotalSizeKey && value.is_number_unsigned()) index.total_bytes = value.get<std::uint64_t>();
    if (value.is_string()) index.metadata.emplace(key, value.get<std::string>());
  }
  return index;
}

std::string encode_safetensors_index(const SafetensorsIndex& index) {
  nlohmann::ordered_json json;
  json["metadata"] = index.metadata;
  if (index.total_bytes) json["metadata"][kTotalSizeKey] = *index.total_bytes;
  json["weight_map"] = index.file_of;
  return json.dump();
}

bool is_safetensors_index(const std::filesystem::path& file) {
  return file.filename().string().ends_with(kIndexSuffix);
}

std::filesystem::path index_of(const std::filesystem::path& file) {
  return file.string() + std::string(kIndexSuffix);
}

std::string shard_name(const std::filesystem::path& file, std::size_t shard, std::size_t shards) {
  return fmt::format("{}-{:05}-of-{:05}{}", file.stem().string(), shard + 1, shards, file.extension().string());
}

std::vector<std::vector<NamedTensor>> split_into_shards(std::span<const NamedTensor> tensors, std::int64_t bytes) {
  std::vector<std::vector<NamedTensor>> shards(1);
  std::uint64_t held = 0;
  for (NamedTensor& tensor : in_file_order(tensors)) {
    const std::size_t needed = tensor.data.size();
    if (!shards.back().empty() && held + needed > static_cast<std::uint64_t>(bytes)) {
      shards.emplace_back();
      held = 0;
    }
    held += needed;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

void write_sharded_safetensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors,
                               const SafetensorsMetadata& metadata, std::int64_t shard_bytes) {
  const std::vector<std::vector<NamedTensor>> shards = split_into_shards(tensors, shard_bytes);
  if (shards.size() == 1) return write_safetensors(file, tensors, metadata);
  SafetensorsIndex index{.metadata = {}, .total_bytes = 0, .file_of = {}};
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(file, i, shards.size());
    write_safetensors(file.parent_path() / name, shards[i], metadata);
    for (const NamedTensor& tensor : shards[i]) {
      *index.total_bytes += tensor.data.size();
      index.file_of.emplace(tensor.name, name);
    }
  }
  write_file_atomically(index_of(file), encode_safetensors_index(index));
}

}  // namespace trifold
