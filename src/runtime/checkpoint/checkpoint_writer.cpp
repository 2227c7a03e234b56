#include "runtime/checkpoint/checkpoint_writer.h"

#include <chrono>

#include <spdlog/spdlog.h>

namespace trifold {

CheckpointWriter::~CheckpointWriter() {
  try {
    finish();
  } catch (const std::exception& error) {
    spdlog::error("the last checkpoint was not written: {}", error.what());
  }
}

void CheckpointWriter::begin(TrainingState state, std::vector<NamedTensor> tensors,
                             std::shared_ptr<const void> memory) {
  finish();
  under_way_ = std::async(std::launch::async, [args = args_, state = std::move(state), tensors = std::move(tensors),
                                               memory = std::move(memory)] {
    const auto begin = std::chrono::steady_clock::now();
    save_checkpoint(args.directory, state, tensors, args.shard_bytes);
    prune(args.directory, args.keep);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
}

void CheckpointWriter::check() {
  if (under_way_.valid() && under_way_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) finish();
}

void CheckpointWriter::finish() {
  if (under_way_.valid()) seconds_ += under_way_.get();
}

}  // namespace trifold
