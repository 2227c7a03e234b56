#include "runtime/compiler/flat_layout.h"

#include <algorithm>

#include "core/error.h"

namespace trifold {
namespace {

constexpr std::size_t kCacheLine = 64;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Eight exchanges a pass keep what is whole for a moment small; none is so small that it is all waiting, nor so large
// that a network of any size would need much memory for it.
std::size_t chosen_bucket_bytes(std::size_t all) {
  return std::clamp(all / 8, std::size_t{64} << 10, std::size_t{25} << 20);
}

}  // namespace

bool FlatLayout::shards(Region region) const {
  switch (region) {
    case Region::optimizer:
      return replication.zero >= 1;
    case Region::gradients:
    case Region::accumulated:
      return replication.zero >= 2;
    case Region::parameters:
      return replication.zero >= 3;
    default:
      return false;
  }
}

Place FlatLayout::part(const Bucket& bucket, Region region) const {
  const std::size_t begin = shards(region) ? bucket.offset / static_cast<std::size_t>(replication.replicas)
                                           : part_begin(bucket, replication.replica);
  return {region, begin, part_bytes(bucket)};
}

const Bucket& FlatLayout::bucket_of(int parameter) const {
  const auto found = std::ranges::find_if(buckets, [&](const Bucket& bucket) {
    return std::ranges::find(bucket.parameters, parameter) != bucket.parameters.end();
  });
  TRIFOLD_CHECK(found != buckets.end(), "parameter {} is in no bucket", parameter);
  return *found;
}

FlatLayout lay_out_flat(const Graph& graph, const std::vector<TensorDesc>& descs, const Replication& replication) {
  FlatLayout layout;
  layout.replication = replication;
  layout.offsets.assign(graph.parameters.size(), 0);
  const auto bytes_of = [&](const Parameter& parameter) {
    return rounded_up(descs[static_cast<std::size_t>(parameter.value)].bytes(), kCacheLine);
  };
  const auto trained = [&](const Parameter& parameter) { return graph[parameter.value].role == Role::parameter; };
  std::size_t all = 0;
  for (const Parameter& parameter : graph.parameters)
    if (trained(parameter)) all += bytes_of(parameter);
  const bool divided = replication.zero > 0;
  const std::size_t unit = divided ? kCacheLine * static_cast<std::size_t>(replication.replicas) : kCacheLine;
  const std::size_t enough = !divided && !replication.aside ? all
                             : replication.bucket_bytes > 0 ? replication.bucket_bytes
                                                            : chosen_bucket_bytes(all);
  const auto close_bucket = [&] {
    if (layout.buckets.empty()) return;
    Bucket& bucket = layout.buckets.back();
    bucket.bytes = rounded_up(layout.bytes - bucket.offset, unit);
    layout.bytes = bucket.offset + bucket.bytes;
  };
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    if (!trained(graph.parameters[i])) continue;
    const std::size_t bytes = bytes_of(graph.parameters[i]);
    if (layout.buckets.empty() || layout.bytes - layout.buckets.back().offset + bytes > enough) {
      close_bucket();
      layout.buckets.push_back({.offset = layout.bytes, .bytes = 0, .parameters = {}});
    }
    layout.offsets[i] = layout.bytes;
    layout.buckets.back().parameters.push_back(static_cast<int>(i));
    layout.bytes += bytes;
  }
  close_bucket();
  return layout;
}

}  // namespace trifold
