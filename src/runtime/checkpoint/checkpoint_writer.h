// Writes checkpoints while training goes on: a thread makes the file, makes it durable, gives it its name and removes
// those that are too old. One is written at a time. A write that fails is thrown by the next call.
#pragma once

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"

namespace trifold {

class CheckpointWriter {
 public:
  struct Args {
    std::filesystem::path directory = {};
    std::int64_t shard_bytes = kDefaultShardBytes;
    int keep = 1;
  };

  explicit CheckpointWriter(Args args) : args_(std::move(args)) {}
  ~CheckpointWriter();  // the write that is under way ends; its failure is logged
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Returns when the write before has ended; this one has then begun. `memory` owns what the tensors view: nobody else
  // may change it.
  void begin(TrainingState state, std::vector<NamedTensor> tensors, std::shared_ptr<const void> memory);
  // Throws if the last write has ended and failed; does not wait for it.
  void check();
  // Returns when the last write has ended.
  void finish();

  // Whether a write is under way.
  bool writing() const {
    return under_way_.valid() && under_way_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  }
  double seconds() const { return seconds_; }  // that writes took, of those that have been waited for

 private:
  Args args_;
  double seconds_ = 0;
  std::future<double> under_way_;  // its seconds
};

}  // namespace trifold
