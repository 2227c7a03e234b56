// Checkpoints: one safetensors file a saved step, step-00001234.safetensors, with the training state and checksums in
// its metadata; or, where that would be too large, several and an index (safetensors_index.h), which then has the
// state. A save is atomic, so a kill at any moment leaves the one before it; any changed bit fails the load. One
// process writes a directory at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/training_state.h"

namespace trifold {

inline constexpr std::int64_t kDefaultShardBytes = std::int64_t{2} << 30;

struct Checkpoint {
  std::filesystem::path file;  // or the index
  TrainingState state;
  SafetensorsFile contents;  // "conv1.weight", "bn1.running_mean", "optimizer.conv1.weight.momentum"
};

// Creates the directory if need be, streams the tensors from where they are (they must not change meanwhile), returns
// the file, or the index of several if one would hold more than `shard_bytes`. On return the checkpoint would survive a
// power cut.
std::filesystem::path save_checkpoint(const std::filesystem::path& directory, const TrainingState& state,
                                      std::span<const NamedTensor> tensors,
                                      std::int64_t shard_bytes = kDefaultShardBytes);

// Verified to the bit, or an Error.
Checkpoint load_checkpoint(const std::filesystem::path& file);

struct SkippedCheckpoint {
  std::filesystem::path file;
  std::string reason;
};

struct LatestCheckpoint {
  std::optional<Checkpoint> checkpoint;    // none if the directory has no good one or does not exist
  std::vector<SkippedCheckpoint> skipped;  // newer and damaged; the caller tells the user
};

LatestCheckpoint latest_good(const std::filesystem::path& directory);

// Deletes all but the newest `keep` (at least 1) checkpoints, and what a killed save left behind. The newest good one
// stays even if `keep` damaged ones are newer. Not while a save is under way.
void prune(const std::filesystem::path& directory, int keep);

// Only the model's tensors (no "optimizer." ones), no state: for other programs. Shards and an index where one file
// would hold more than `shard_bytes`.
void export_model(const std::filesystem::path& file, std::span<const NamedTensor> tensors,
                  std::int64_t shard_bytes = kDefaultShardBytes);

}  // namespace trifold
