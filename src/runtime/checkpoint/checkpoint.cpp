#include "runtime/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include <xxhash.h>

#include "runtime/checkpoint/atomic_file.h"
#include "runtime/core/error.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVersionKey = "trifold.checkpoint";
constexpr const char* kVersion = "1";
constexpr const char* kStateKey = "trifold.state";
constexpr const char* kDataChecksumKey = "trifold.data_xxh3";
constexpr const char* kHeaderChecksumKey = "trifold.header_xxh3";
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

// Of length, JSON and padding, with the checksum's own digits taken as blank.
std::string header_checksum(std::string_view header, std::size_t position) {
  Checksum checksum;
  checksum.add(header.substr(0, position));
  checksum.add(kBlankChecksum);
  checksum.add(header.substr(position + kBlankChecksum.size()));
  return checksum.hex();
}

const std::string& required_entry(const SafetensorsMetadata& metadata, const char* key, const fs::path& file) {
  const auto found = metadata.find(key);
  if (found == metadata.end())
    fail_input("'{}' is not a Trifold checkpoint: its metadata has no {}", file.string(), key);
  return found->second;
}

void verify_checksums(const SafetensorsView& view, const fs::path& file) {
  // Digits are compared as text: a flipped bit that turns 'a' into 'A' is damage too.
  const std::string& stored_header = required_entry(view.metadata, kHeaderChecksumKey, file);
  const std::string_view header(reinterpret_cast<const char*>(view.header.data()), view.header.size());
  const std::size_t position = header_checksum_position(header);
  if (position == std::string_view::npos || header_checksum(header, position) != stored_header) {
    fail_input("'{}' is damaged: its header does not match its checksum", file.string());
  }
  Checksum data;
  data.add(view.data);
  if (data.hex() != required_entry(view.metadata, kDataChecksumKey, file)) {
    fail_input("'{}' is damaged: its data do not match their checksum", file.string());
  }
}

struct CheckpointName {
  std::int64_t step = 0;
  fs::path file;
};

std::optional<std::int64_t> step_of(const fs::path& file) {
  const std::string name = file.filename().string();
  if (!name.starts_with(kFilePrefix) || !name.ends_with(kFileSuffix)) return std::nullopt;
  const std::string_view digits =
      std::string_view(name).substr(kFilePrefix.size(), name.size() - kFilePrefix.size() - kFileSuffix.size());
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (digits.size() < kMinStepDigits || !std::all_of(digits.begin(), digits.end(), is_digit)) return std::nullopt;
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc{}) return std::nullopt;
  return step;
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

fs::path save_checkpoint(const fs::path& directory, const TrainingState& state, std::span<const NamedTensor> tensors) {
  TRIFOLD_CHECK(state.step >= 0, "a checkpoint of step {}", state.step);
  std::error_code error;
  const bool created = fs::create_directories(directory, error);
  if (error) fail_runtime("cannot create '{}': {}", directory.string(), error.message());
  if (created) sync_directory(fs::absolute(directory).parent_path());

  // The header comes first and holds the data's checksum, so the tensors are read twice rather than copied once.
  const std::vector<NamedTensor> ordered = in_file_order(tensors);
  Checksum data;
  for (const NamedTensor& tensor : ordered) data.add(tensor.data);
  std::string header = encode_safetensors_header(ordered, {{kVersionKey, kVersion},
                                                           {kStateKey, to_json_text(state)},
                                                           {kDataChecksumKey, data.hex()},
                                                           {kHeaderChecksumKey, std::string(kBlankChecksum)}});
  const std::size_t position = header_checksum_position(header);
  TRIFOLD_CHECK(position != std::string::npos, "a checkpoint header without its checksum");
  header.replace(position, kBlankChecksum.size(), header_checksum(header, position));

  fs::path file = directory / fmt::format("{}{:08}{}", kFilePrefix, state.step, kFileSuffix);
  AtomicFile out(file);
  out.write(header);
  for (const NamedTensor& tensor : ordered) out.write(tensor.data);
  out.commit();
  return file;
}

Checkpoint load_checkpoint(const fs::path& file) {
  SafetensorsFile contents(file);
  const std::string& version = required_entry(contents.metadata(), kVersionKey, file);
  verify_checksums(contents.view(), file);
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
  std::vector<fs::path> leftovers;
  for_each_entry(directory, [&](const fs::path& file) {
    const bool ours = file.filename().string().starts_with(fmt::format(".{}", kFilePrefix));
    if (ours && is_atomic_temporary(file)) leftovers.push_back(file);
  });
  for (const fs::path& file : leftovers) delete_file(file);
}

void export_model(const fs::path& file, std::span<const NamedTensor> tensors) {
  std::vector<NamedTensor> model;
  for (const NamedTensor& tensor : tensors) {
    if (!tensor.name.starts_with(kOptimizerPrefix)) model.push_back(tensor);
  }
  // What loaders of PyTorch models look for.
  write_safetensors(file, model, {{"format", "pt"}});
}

}  // namespace trifold
