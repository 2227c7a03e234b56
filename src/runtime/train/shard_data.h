// The training data as the workers of parameter servers and federated clients have it: shards, by the job's plan.sync
// and data.shard. What shard i reads at its clock c is a pure function of the two, so whoever takes a shard over goes
// on exactly where its last worker was.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/config/job.h"
#include "runtime/data/division.h"
#include "runtime/data/loader.h"

namespace trifold {

// The job of one shard: its train.batch is what the shard trains on in a step. (A client takes whole batches.)
Job shard_job(const Job& job);

// How the job divides its training set, as lines. The set is opened only where the shards depend on it.
std::string describe_division(const Job& job);

class ShardData {
 public:
  // `job` has parameter servers. Fails where a shard would not fill a batch.
  ShardData(const Job& job, std::shared_ptr<const Dataset> training_set);

  int shards() const { return shards_; }
  // Steps that a shard does in an epoch of the job: as many as the set has global batches, whatever the shard's own
  // size, so that all shards end an epoch together; smaller shards repeat samples, larger ones take more epochs of the
  // job to come around. Clients: the steps of one pass over their own samples.
  std::int64_t steps_per_epoch(int shard) const;
  std::int64_t samples(int shard) const;
  // What the shard counts in a weighted mean: its samples.
  double weight(int shard) const { return static_cast<double>(samples(shard)); }

  // The shard's batches from its step `clock` on (over all epochs).
  std::unique_ptr<Loader> loader(int shard, std::int64_t clock) const;

  // How uneven the shards are, as lines.
  std::string describe() const;

 private:
  bool divides_batches() const { return job_.data.division.kind == DivisionKind::batch; }

  Job job_;
  std::shared_ptr<const Dataset> set_;
  int shards_ = 1;
  std::int64_t shard_batch_ = 0;
  Shards samples_;  // empty: shards of every batch
};

}  // namespace trifold
