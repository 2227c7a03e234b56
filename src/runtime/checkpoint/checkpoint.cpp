#include "runtime/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "core/error.h"
#include "runtime/checkpoint/atomic_file.h"
#include "runtime/checkpoint/safetensors_index.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVersionKey = "trifold.checkpoint";
constexpr const char* kVersion = "1";
constexpr const char* kStateKey = "trifold.state";
constexpr const char* kDataChecksumKey = "trifold.data_xxh3";
constexpr const char* kHeaderChecksumKey = "trifold.header_xxh3";
constexpr const char* kShardsKey = "trifold.shards";  // of an index: each file's header checksum
constexpr std::string_view kBlankChecksum = "0000000000000000";
constexpr std::string_view kFilePrefix = "step-";
constexpr std::string_view kFileSuffix = ".safetensors";
constexpr std::size_t kMinStepDigits = 8;
constexpr std::string_view kOptimizerPrefix = "optimizer.";

class Checksum {
 public:
  Checksum() : state_(XXH3_createState()) {
    if (state_ == nullptr || XXH3_64bits_reset(state_.get()) != XXH_OK) fail_runtime("out of memory for a checksum");
  }
  void add(std::span<const std::byte> bytes) { XXH3_64bits_update(state_.get(), bytes.data(), bytes.size()); }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  std::string hex() const { return fmt::format("{:016x}", XXH3_64bits_digest(state_.get())); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

// Where the header's own checksum stands in it. Quotes inside JSON strings are escaped, so only the entry itself can
// match.
std::size_t header_checksum_position(std::string_view header) {
  const std::string entry = fmt::format("\"{}\":\"", kHeaderChecksumKey);
  const std::size_t at = header.find(entry);
  if (at == std::string_view::npos || header.size() - at - entry.size() < kBlankChecksum.size()) {
    return std::string_view::npos;
  }
  return at + entry.size();
}

// Of the whole header (or index), with the checksum's own digits taken as blank.
std::string header_checksum(std::string_view header, std::size_t position) {
  Checksum checksum;
  checksum.add(header.substr(0, position));
  checksum.add(kBlankChecksum);
  checksum.add(header.substr(position + kBlankChecksum.size()));
  return checksum.hex();
}

void put_header_checksum(std::string& header) {
  const std::size_t position = header_checksum_position(header);
  TRIFOLD_CHECK(position != std::string::npos, "a checkpoint header without its checksum");
  header.replace(position, kBlankChecksum.size(), header_checksum(header, position));
}

const std::string& required_entry(const SafetensorsMetadata& metadata, const char* key, const fs::path& file) {
  const auto found = metadata.find(key);
  if (found == metadata.end())
    fail_input("'{}' is not a Trifold checkpoint: its metadata has no {}", file.string(), key);
  return found->second;
}

// Digits are compared as text: a flipped bit that turns 'a' into 'A' is damage too.
void verify_header(std::string_view header, const SafetensorsMetadata& metadata, const fs::path& file) {
  const std::string& stored = required_entry(metadata, kHeaderChecksumKey, file);
  const std::size_t position = header_checksum_position(header);
  if (position == std::string_view::npos || header_checksum(header, position) != stored) {
    fail_input("'{}' is damaged: its header does not match its checksum", file.string());
  }
}

void verify_checksums(const SafetensorsView& view, const fs::path& file) {
  verify_header({reinterpret_cast<const char*>(view.header.data()), view.header.size()}, view.metadata, file);
  Checksum data;
  data.add(view.data);
  if (data.hex() != required_entry(view.metadata, kDataChecksumKey, file)) {
    fail_input("'{}' is damaged: its data do not match their checksum", file.string());
  }
}

// That the shards are those that were saved with this index, and not of another save of the same step.
void verify_index(const SafetensorsFile& contents, const fs::path& file) {
  const MappedFile text(file);
  verify_header({reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size()}, contents.metadata(), file);
  const nlohmann::json shards =
      nlohmann::json::parse(required_entry(contents.metadata(), kShardsKey, file), nullptr, false);
  for (const SafetensorsFile::Part& part : contents.parts()) {
    const std::string& checksum = required_entry(part.view.metadata, kHeaderChecksumKey, part.file);
    if (!shards.is_object() || shards.value(part.file.filename().string(), "") != checksum)
      fail_input("'{}' does not belong to '{}'", part.file.string(), file.string());
  }
}

struct CheckpointName {
  std::int64_t step = 0;
  fs::path file;
};

// "step-<digits><rest>"
std::optional<std::int64_t> step_in(std::string_view name, std::string_view rest) {
  if (!name.starts_with(kFilePrefix) || !name.ends_with(rest)) return std::nullopt;
  if (name.size() < kFilePrefix.size() + rest.size()) return std::nullopt;
  const std::string_view digits = name.substr(kFilePrefix.size(), name.size() - kFilePrefix.size() - rest.size());
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (digits.size() < kMinStepDigits || !std::all_of(digits.begin(), digits.end(), is_digit)) return std::nullopt;
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc{}) return std::nullopt;
  return step;
}

// Of a checkpoint's file or index.
std::optional<std::int64_t> step_of(const fs::path& file) {
  const std::string name = file.filename().string();
  const auto whole = step_in(name, kFileSuffix);
  return whole ? whole : step_in(name, index_of(kFileSuffix).string());
}

// Of a shard: "step-00001234-00001-of-00003.safetensors".
std::optional<std::int64_t> step_of_shard(const fs::path& file) {
  const std::string name = file.filename().string();
  const std::size_t dash = name.find('-', kFilePrefix.size());
  if (dash == std::string::npos || !name.ends_with(kFileSuffix)) return std::nullopt;
  return step_in(name.substr(0, dash), "");
}

template <class Visit>
void for_each_entry(const fs::path& directory, const Visit& visit) {
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) visit(entry->path());
  if (error && error != std::errc::no_such_file_or_directory) {
    fail_input("cannot list '{}': {}", directory.string(), error.message());
  }
}

std::vector<CheckpointName> newest_first(const fs::path& directory) {
  std::vector<CheckpointName> names;
  for_each_entry(directory, [&](const fs::path& file) {
    if (const auto step = step_of(file)) names.push_back({.step = *step, .file = file});
  });
  std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  return names;
}

Checkpoint load_named(const CheckpointName& name) {
  Checkpoint checkpoint = load_checkpoint(name.file);
  if (checkpoint.state.step != name.step) {
    fail_input("'{}' holds step {}, not the step in its name", name.file.string(), checkpoint.state.step);
  }
  return checkpoint;
}

bool is_good(const CheckpointName& name) {
  try {
    load_named(name);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void delete_file(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
  if (error) fail_runtime("cannot delete '{}': {}", file.string(), error.message());
}

}  // namespace

namespace {

struct ShardWritten {
  std::string header_checksum;
  std::uint64_t bytes = 0;
};

// The header comes first and holds the data's checksum, so the tensors are read twice rather than copied once.
ShardWritten write_checked(const fs::path& file, std::span<const NamedTensor> ordered, SafetensorsMetadata metadata) {
  ShardWritten written;
  Checksum data;
  for (const NamedTensor& tensor : ordered) {
    data.add(tensor.data);
    written.bytes += tensor.data.size();
  }
  metadata[kDataChecksumKey] = data.hex();
  metadata[kHeaderChecksumKey] = kBlankChecksum;
  std::string header = encode_safetensors_header(ordered, metadata);
  put_header_checksum(header);
  written.header_checksum = header.substr(header_checksum_position(header), kBlankChecksum.size());
  AtomicFile out(file);
  out.write(header);
  for (const NamedTensor& tensor : ordered) out.write(tensor.data);
  out.commit();
  return written;
}

void save_shards(const fs::path& file, const std::vector<std::vector<NamedTensor>>& shards,
                 const SafetensorsMetadata& metadata) {
  SafetensorsIndex index{.metadata = metadata, .total_bytes = 0, .file_of = {}};
  nlohmann::json checksums;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(file, i, shards.size());
    const ShardWritten written = write_checked(file.parent_path() / name, shards[i], {});
    checksums[name] = written.header_checksum;
    *index.total_bytes += written.bytes;
    for (const NamedTensor& tensor : shards[i]) index.file_of.emplace(tensor.name, name);
  }
  index.metadata[kShardsKey] = checksums.dump();
  index.metadata[kHeaderChecksumKey] = kBlankChecksum;
  std::string text = encode_safetensors_index(index);
  put_header_checksum(text);
  write_file_atomically(index_of(file), text);
}

}  // namespace

fs::path save_checkpoint(const fs::path& directory, const TrainingState& state, std::span<const NamedTensor> tensors,
                         std::int64_t shard_bytes) {
  TRIFOLD_CHECK(state.step >= 0, "a checkpoint of step {}", state.step);
  std::error_code error;
  const bool created = fs::create_directories(directory, error);
  if (error) fail_runtime("cannot create '{}': {}", directory.string(), error.message());
  if (created) sync_directory(fs::absolute(directory).parent_path());

  const fs::path file = directory / fmt::format("{}{:08}{}", kFilePrefix, state.step, kFileSuffix);
  const SafetensorsMetadata metadata = {{kVersionKey, kVersion}, {kStateKey, to_json_text(state)}};
  const std::vector<std::vector<NamedTensor>> shards = split_into_shards(tensors, shard_bytes);
  const bool whole = shards.size() == 1;
  if (whole)
    write_checked(file, shards.front(), metadata);
  else
    save_shards(file, shards, metadata);
  fs::remove(whole ? index_of(file) : file, error);  // the step in its other form, if it was saved before
  return whole ? file : index_of(file);
}

Checkpoint load_checkpoint(const fs::path& file) {
  SafetensorsFile contents(file);
  const std::string& version = required_entry(contents.metadata(), kVersionKey, file);
  if (is_safetensors_index(file)) verify_index(contents, file);
  for (const SafetensorsFile::Part& part : contents.parts()) verify_checksums(part.view, part.file);
  if (version != kVersion) {
    fail_input("'{}' is a checkpoint of version {}; this program reads version {}", file.string(), version, kVersion);
  }
  TrainingState state = training_state_from_json(required_entry(contents.metadata(), kStateKey, file), file.string());
  return {.file = file, .state = std::move(state), .contents = std::move(contents)};
}

LatestCheckpoint latest_good(const fs::path& directory) {
  LatestCheckpoint latest;
  for (const CheckpointName& name : newest_first(directory)) {
    try {
      latest.checkpoint = load_named(name);
      break;
    } catch (const Error& error) {
      latest.skipped.push_back({.file = name.file, .reason = error.what()});
    }
  }
  return latest;
}

void prune(const fs::path& directory, int keep) {
  TRIFOLD_CHECK(keep >= 1, "{} checkpoints to keep", keep);
  const std::vector<CheckpointName> names = newest_first(directory);
  bool good_one_kept = false;
  int kept = 0;
  for (const CheckpointName& name : names) {
    // Usually one file is verified: the newest.
    if (kept < keep || !good_one_kept) {
      good_one_kept = good_one_kept || is_good(name);
      ++kept;
    } else {
      delete_file(name.file);
    }
  }
  // Shards go after their index, also those of a save that was killed before it had one.
  std::set<std::int64_t> indexed;
  for (const CheckpointName& name : newest_first(directory))
    if (is_safetensors_index(name.file)) indexed.insert(name.step);
  std::vector<fs::path> leftovers;
  for_each_entry(directory, [&](const fs::path& file) {
    const bool ours = file.filename().string().starts_with(fmt::format(".{}", kFilePrefix));
    const auto shard_of = step_of_shard(file);
    if ((ours && is_atomic_temporary(file)) || (shard_of && !indexed.contains(*shard_of))) leftovers.push_back(file);
  });
  for (const fs::path& file : leftovers) delete_file(file);
}

void export_model(const fs::path& file, std::span<const NamedTensor> tensors, std::int64_t shard_bytes) {
  std::vector<NamedTensor> model;
  for (const NamedTensor& tensor : tensors) {
    if (!tensor.name.starts_with(kOptimizerPrefix)) model.push_back(tensor);
  }
  // What loaders of PyTorch models look for.
  write_sharded_safetensors(file, model, {{"format", "pt"}}, shard_bytes);
}

}  // namespace trifold
