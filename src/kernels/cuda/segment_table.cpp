#include "kernels/cuda/segment_table.h"

#include <algorithm>
#include <cstddef>

namespace trifold::cuda {
namespace {

constexpr std::int64_t kChunkElements = 4096;

}  // namespace

SegmentTable::SegmentTable(const std::vector<ParameterSegment>& segments, Device& device)
    : segment_count_(static_cast<int>(segments.size())) {
  std::vector<UpdateChunk> chunks;
  std::vector<SegmentChunks> by_segment;
  for (const ParameterSegment& segment : segments) {
    SegmentChunks mine{.first_chunk = static_cast<int>(chunks.size()), .end_chunk = 0, .decays = segment.decay};
    for (std::int64_t begin = segment.begin; begin < segment.end;) {
      // Cut at multiples of four, so that only a segment's own ends are no whole packs.
      const std::int64_t end = std::min(segment.end, (begin & ~std::int64_t{3}) + kChunkElements);
      chunks.push_back({begin, end, static_cast<int>(by_segment.size()), segment.decay});
      begin = end;
    }
    mine.end_chunk = static_cast<int>(chunks.size());
    by_segment.push_back(mine);
  }
  chunk_count_ = static_cast<int>(chunks.size());
  std::vector<std::byte> bytes(chunks.size() * sizeof(UpdateChunk) + by_segment.size() * sizeof(SegmentChunks));
  std::copy_n(reinterpret_cast<const std::byte*>(chunks.data()), chunks.size() * sizeof(UpdateChunk), bytes.data());
  std::copy_n(reinterpret_cast<const std::byte*>(by_segment.data()), by_segment.size() * sizeof(SegmentChunks),
              bytes.data() + chunks.size() * sizeof(UpdateChunk));
  if (bytes.empty()) return;
  memory_ = DeviceMemory(device, bytes.size());
  device.upload(memory_.data(), bytes.data(), bytes.size());
}

const SegmentChunks* SegmentTable::segments() const {
  return reinterpret_cast<const SegmentChunks*>(memory_.data() +
                                                static_cast<std::size_t>(chunk_count_) * sizeof(UpdateChunk));
}

}  // namespace trifold::cuda
