#include "runtime/train/run_checkpoints.h"

#include <memory>

#include <fmt/format.h>

#include "core/error.h"
#include "core/stopwatch.h"

namespace trifold {

// Process 0 chooses, all load the same file.
std::optional<Checkpoint> newest_checkpoint(const RunFolder* folder, World* world,
                                            const std::function<void(const std::string&)>& say) {
  std::optional<Checkpoint> found;
  if (folder != nullptr) {
    LatestCheckpoint latest = latest_good(folder->checkpoints());
    for (const SkippedCheckpoint& skipped : latest.skipped)
      say(fmt::format("going back to the checkpoint before: {}", skipped.reason));
    found = std::move(latest.checkpoint);
  }
  if (world == nullptr) return found;
  const std::string mine = found ? std::filesystem::absolute(found->file).string() : "";
  const std::filesystem::path file = world->from_first(mine);
  if (folder != nullptr || file.empty()) return found;
  if (!std::filesystem::exists(file))
    fail_input("cannot see {}, from which process 0 resumes: runs of several machines need a folder that all share",
               file.string());
  return load_checkpoint(file);
}

void RunCheckpoints::write_into(const RunFolder& folder) {
  writer_.emplace(CheckpointWriter::Args{
      .directory = folder.checkpoints(), .shard_bytes = rules_.shard_bytes, .keep = static_cast<int>(rules_.keep)});
}

bool RunCheckpoints::due(const TrainingState& state) const {
  if (rules_.every_steps > 0) return state.step % rules_.every_steps == 0;
  return rules_.every_epochs > 0 && state.position_in_epoch == 0 && state.epoch % rules_.every_epochs == 0;
}

void RunCheckpoints::save(Learner& learner, const TrainingState& state) {
  const Stopwatch stopwatch;
  if (writer_) writer_->finish();  // first, so that there is one copy at a time
  const auto snapshot = std::make_shared<Model::Snapshot>(learner.snapshot(Model::Contents::model_and_optimizer));
  if (writer_) {
    snapshot->own();
    writer_->begin(state, snapshot->tensors(), snapshot);
  }
  saved_step_ = state.step;
  times_.count += 1;
  times_.wait_s += stopwatch.seconds();
}

void RunCheckpoints::check() {
  if (writer_) writer_->check();
}

void RunCheckpoints::finish() {
  if (!writer_) return;
  const Stopwatch stopwatch;
  writer_->finish();
  times_.wait_s += stopwatch.seconds();
  times_.write_s = writer_->seconds();
}

}  // namespace trifold
