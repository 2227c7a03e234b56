// The flat buffers: all trained parameters of a program one after the other, and their gradients and the optimiser's
// state at the same offsets. Replicas exchange them in buckets, runs of whole parameters. With ZeRO every replica has
// an equal part of each bucket to keep: stage 1 keeps the parts of the optimiser's state only, stage 2 of the gradients
// too, stage 3 of the parameters too.
#pragma once

#include <cstddef>
#include <vector>

#include "layers/graph.h"
#include "runtime/compiler/memory_plan.h"

namespace trifold {

struct Replication {
  int replicas = 1;
  int replica = 0;               // this one
  int zero = 0;                  // stage
  bool aside = false;            // gradients are added up bucket by bucket while backward work goes on
  std::size_t bucket_bytes = 0;  // 0: chosen
};

struct Bucket {
  std::size_t offset = 0;       // in a whole buffer
  std::size_t bytes = 0;        // a multiple of the replicas' parts
  std::vector<int> parameters;  // indices into Graph::parameters
};

struct FlatLayout {
  Replication replication;
  std::vector<std::size_t> offsets;  // of Graph::parameters in a whole buffer; of those that are not trained: 0
  std::vector<Bucket> buckets;
  std::size_t bytes = 0;  // of a whole buffer

  bool shards(Region region) const;
  std::size_t bytes_of(Region region) const {
    return shards(region) ? bytes / static_cast<std::size_t>(replication.replicas) : bytes;
  }
  std::size_t part_bytes(const Bucket& bucket) const {
    return bucket.bytes / static_cast<std::size_t>(replication.replicas);
  }
  // Where a replica's part of a bucket begins in a whole buffer.
  std::size_t part_begin(const Bucket& bucket, int replica) const {
    return bucket.offset + static_cast<std::size_t>(replica) * part_bytes(bucket);
  }
  // This replica's part of a bucket, wherever the region has it.
  Place part(const Bucket& bucket, Region region) const;
  const Bucket& bucket_of(int parameter) const;
};

FlatLayout lay_out_flat(const Graph& graph, const std::vector<TensorDesc>& descs, const Replication& replication);

}  // namespace trifold
