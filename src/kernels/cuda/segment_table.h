// The parameters of an update, cut into chunks that blocks take one at a time; in device memory.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device.h"
#include "kernels/ops/optimizer.h"

namespace trifold::cuda {

// A run of the flat buffers within one segment.
struct UpdateChunk {
  std::int64_t begin, end;
  int segment;
  int decays;  // of its segment
};
struct SegmentChunks {
  int first_chunk, end_chunk;
  int decays;
};

class SegmentTable {
 public:
  SegmentTable(const std::vector<ParameterSegment>& segments, Device& device);

  int chunk_count() const { return chunk_count_; }
  int segment_count() const { return segment_count_; }
  const UpdateChunk* chunks() const { return reinterpret_cast<const UpdateChunk*>(memory_.data()); }
  const SegmentChunks* segments() const;

 private:
  int chunk_count_ = 0;
  int segment_count_ = 0;
  DeviceMemory memory_;
};

}  // namespace trifold::cuda
