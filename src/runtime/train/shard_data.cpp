#include "runtime/train/shard_data.h"

#include "core/error.h"
#include "runtime/data/subset.h"
#include "runtime/train/job_data.h"

namespace trifold {
namespace {

// Shards shuffle and augment by numbers of their own. Shard 0 alone is the whole set, in the order of the single run.
std::uint64_t seed_of_shard(std::uint64_t seed, int shard) {
  return seed + 0x9E3779B97F4A7C15ull * static_cast<std::uint64_t>(shard);
}

}  // namespace

Job shard_job(const Job& job) {
  Job result = job;
  const ServerSync& servers = job.plan.servers.value();
  if (!servers.federated) result.train.batch /= servers.shards;
  return result;
}

std::string describe_division(const Job& job) {
  if (job.data.division.kind != DivisionKind::batch) return ShardData(job, open_split(job, Split::train)).describe();
  return fmt::format("{} shards take {} samples each of every batch of {}\n", job.plan.servers.value().shards,
                     shard_job(job).train.batch, job.train.batch);
}

ShardData::ShardData(const Job& job, std::shared_ptr<const Dataset> training_set)
    : job_(job),
      set_(std::move(training_set)),
      shards_(static_cast<int>(job.plan.servers.value().shards)),
      shard_batch_(shard_job(job).train.batch) {
  if (!divides_batches()) samples_ = divide(*set_, job.data.division, shards_, job.train.seed, shard_batch_);
}

std::int64_t ShardData::steps_per_epoch(int shard) const {
  return job_.plan.servers->federated ? samples(shard) / shard_batch_ : set_->size() / job_.train.batch;
}

std::int64_t ShardData::samples(int shard) const {
  TRIFOLD_CHECK(shard >= 0 && shard < shards_, "shard {} of {}", shard, shards_);
  if (divides_batches()) return set_->size() / shards_;
  return static_cast<std::int64_t>(samples_[static_cast<std::size_t>(shard)].size());
}

std::unique_ptr<Loader> ShardData::loader(int shard, std::int64_t clock) const {
  if (divides_batches()) {
    const std::int64_t steps = steps_per_epoch(shard);
    // Shards that push every step's gradients share its mean; the others average over their own samples.
    const ServerSync& sync = *job_.plan.servers;
    const BatchShare share{.slice = {.begin = shard * shard_batch_, .end = (shard + 1) * shard_batch_},
                           .global_labels = !sync.federated && sync.period == 1 && !sync.partial()};
    // A set without one whole batch has no steps; the loader says so.
    return make_training_loader(job_, set_, steps > 0 ? clock / steps : 0, steps > 0 ? clock % steps : 0, share);
  }
  Job own = shard_job(job_);
  own.train.seed = seed_of_shard(job_.train.seed, shard);
  const std::int64_t steps = samples(shard) / shard_batch_;
  auto subset = std::make_shared<SubsetDataset>(set_, samples_[static_cast<std::size_t>(shard)]);
  return make_training_loader(own, std::move(subset), clock / steps, clock % steps);
}

std::string ShardData::describe() const {
  if (divides_batches()) return describe_division(job_);
  return fmt::format("by {}: {}", name_of(job_.data.division.kind), describe_shards(*set_, samples_));
}

}  // namespace trifold
