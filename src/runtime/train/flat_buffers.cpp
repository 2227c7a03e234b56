#include "runtime/train/flat_buffers.h"

#include <algorithm>

#include "core/error.h"

namespace trifold {

bool FlatBuffers::in_parts(Region region) const {
  const bool reduced = region == Region::gradients || region == Region::accumulated;
  return layout_->shards(region) || (reduced && layout_->replication.zero > 0);
}

std::vector<float> FlatBuffers::own_parts(Region region, std::size_t base) const {
  std::vector<float> parts(layout_->bytes / static_cast<std::size_t>(layout_->replication.replicas) / sizeof(float));
  float* next = parts.data();
  for (const Bucket& bucket : layout_->buckets) {
    const Place part = layout_->part(bucket, region);
    memory_->device().download(next, memory_->region(region) + base + part.offset, part.bytes);
    next += part.bytes / sizeof(float);
  }
  return parts;
}

void FlatBuffers::place_parts(int replica, std::span<const float> parts, std::span<float> whole) const {
  auto from = parts.begin();
  for (const Bucket& bucket : layout_->buckets) {
    const auto count = static_cast<std::ptrdiff_t>(layout_->part_bytes(bucket) / sizeof(float));
    const auto to = static_cast<std::ptrdiff_t>(layout_->part_begin(bucket, replica) / sizeof(float));
    std::copy(from, from + count, whole.begin() + to);
    from += count;
  }
}

std::vector<float> FlatBuffers::gather(Region region, std::size_t base) const {
  TRIFOLD_CHECK(in_parts(region), "the {} are whole", name_of(region));
  std::vector<float> parts = own_parts(region, base);
  if (layout_->replication.replicas == 1) return parts;
  TRIFOLD_CHECK(ranks_ != nullptr, "the model was made without its ranks");
  Communicator& replicas = ranks_->along(Axis::data);
  if (replicas.rank() > 0) {
    replicas.wait(replicas.send(std::as_bytes(std::span<const float>(parts)), 0));
    return {};
  }
  std::vector<float> whole(layout_->bytes / sizeof(float));
  place_parts(0, parts, whole);
  for (int replica = 1; replica < replicas.size(); ++replica) {
    replicas.wait(replicas.receive(std::as_writable_bytes(std::span<float>(parts)), replica));
    place_parts(replica, parts, whole);
  }
  return whole;
}

void FlatBuffers::put(Region region, std::size_t base, int parameter, std::span<const float> values) const {
  const std::size_t at = layout_->offsets[static_cast<std::size_t>(parameter)];
  std::byte* buffer = memory_->region(region) + base;
  if (!layout_->shards(region)) return memory_->device().upload(buffer + at, values.data(), values.size_bytes());
  const Bucket& bucket = layout_->bucket_of(parameter);
  const std::size_t mine = layout_->part_begin(bucket, layout_->replication.replica);
  const std::size_t begin = std::max(at, mine);
  const std::size_t end = std::min(at + values.size_bytes(), mine + layout_->part_bytes(bucket));
  if (begin >= end) return;
  memory_->device().upload(buffer + layout_->part(bucket, region).offset + (begin - mine),
                           values.data() + (begin - at) / sizeof(float), end - begin);
}

}  // namespace trifold
