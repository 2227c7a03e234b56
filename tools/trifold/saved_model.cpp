#include "saved_model.h"

#include <filesystem>

#include <fmt/format.h>

#include "core/error.h"
#include "runtime/checkpoint/checkpoint.h"

namespace trifold {
namespace {

bool is_checkpoint(const SafetensorsFile& file) {
  return file.metadata().contains("trifold.checkpoint");
}

}  // namespace

void SavedModel::declare(CLI::App& command) {
  auto* file_option = command.add_option("--checkpoint", checkpoint, "a checkpoint or an exported model");
  command.add_option("--run", run, "the run folder whose last good checkpoint is read (default: runs/<job>)")
      ->excludes(file_option);
}

SafetensorsFile SavedModel::open(const Job& job) const {
  if (!checkpoint.empty()) {
    SafetensorsFile file(checkpoint);
    // An exported model carries no checksum.
    return is_checkpoint(file) ? load_checkpoint(checkpoint).contents : std::move(file);
  }
  const std::filesystem::path folder =
      run.empty() ? std::filesystem::path("runs") / job.name : std::filesystem::path(run);
  LatestCheckpoint latest = latest_good(folder / "checkpoints");
  for (const SkippedCheckpoint& skipped : latest.skipped)
    fmt::print(stderr, "going back to the checkpoint before: {}\n", skipped.reason);
  if (!latest.checkpoint)
    fail_input("{} holds no good checkpoint; train first, or name one with --checkpoint", folder.string());
  return std::move(latest.checkpoint->contents);
}

}  // namespace trifold
