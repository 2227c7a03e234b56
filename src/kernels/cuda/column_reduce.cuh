// Reductions of a matrix of columns (columns.cuh) to its channels, in two launches and always in the same order: a
// block leaves a part for each channel of its tile, then one block a few channels merges their parts, group after
// group.
#pragma once

#include "kernels/cuda/columns.cuh"

namespace trifold::cuda {

// Two sums over `count` values.
struct SumPart {
  float count, first, second;

  __device__ __forceinline__ void merge(const SumPart& other) {
    count += other.count;
    first += other.first;
    second += other.second;
  }
};

// The mean of `count` values (first) and the sum of their squared distances from it (second). Merged as by Chan, Golub
// and LeVeque (1979), which loses no digits however far the mean is from zero.
struct MomentPart {
  float count, first, second;

  __device__ __forceinline__ void merge(const MomentPart& other) {
    if (other.count == 0) return;
    const float total = count + other.count;
    const float share = other.count / total;
    const float distance = other.first - first;
    first += distance * share;
    second += other.second + distance * distance * count * share;
    count = total;
  }
};

// Merges the block's threads into one part a channel, and calls store(channel - first_channel(tile), first, second) for
// each. Needs column_reduce_bytes of dynamic shared memory. A thread has `count` rows, the same for all its columns.
template <class Part, int kPack, class Store>
__device__ __forceinline__ void reduce_columns(const Columns& c, const ColumnPlace& place, float count,
                                               float (&first)[kPack], float (&second)[kPack], const Store& store) {
  extern __shared__ float shared_floats[];
  constexpr int kStride = kColumnThreads + 32 / kPack % 32;  // as in ChannelTable: no two columns of a warp in one bank
  const ChannelTable<kPack> firsts{shared_floats, kStride};
  const ChannelTable<kPack> seconds{shared_floats + kPack * kStride, kStride};
  float* counts = shared_floats + 2 * kPack * kStride;
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();  // coefficients may have lain here
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    firsts[thread * kPack + i] = first[i];
    seconds[thread * kPack + i] = second[i];
  }
  counts[thread] = count;
  __syncthreads();
  for (int rows = c.threads_down; rows > 1;) {
    const int half = (rows + 1) / 2;
    if (place.down < rows - half) {
      const int other = thread + half * c.threads_across;
      const float own = count;
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        Part part{own, first[i], second[i]};
        part.merge({counts[other], firsts[other * kPack + i], seconds[other * kPack + i]});
        firsts[thread * kPack + i] = first[i] = part.first;
        seconds[thread * kPack + i] = second[i] = part.second;
      }
      counts[thread] = count = own + counts[other];
    }
    rows = half;
    __syncthreads();
  }

  // The first row of threads has the tile's columns now. Their counts are equal: all have seen the chunk's rows.
  const int begin = place.tile * c.tile_columns;
  const int end = c.tile_end(place.tile);
  const float rows = counts[0];
  if (c.columns_per_channel == 1) {
    for (int i = thread; i < end - begin; i += kColumnThreads) store(i, firsts[i], seconds[i]);
    return;
  }
  const int first_channel = c.first_channel(place.tile);
  for (int slot = thread / 32; (first_channel + slot) * c.columns_per_channel < end; slot += kColumnThreads / 32) {
    const int from = max(begin, (first_channel + slot) * c.columns_per_channel) - begin;
    const int until = min(end, (first_channel + slot + 1) * c.columns_per_channel) - begin;
    Part part{0, 0, 0};
    for (int column = from - from % kPack + thread % 32; column < until; column += 32)
      if (column >= from) part.merge({rows, firsts[column], seconds[column]});
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      const Part other{__shfl_down_sync(0xffffffffu, part.count, offset),
                       __shfl_down_sync(0xffffffffu, part.first, offset),
                       __shfl_down_sync(0xffffffffu, part.second, offset)};
      part.merge(other);
    }
    if (thread % 32 == 0) store(slot, part.first, part.second);
  }
}
template <int kPack>
std::size_t column_reduce_bytes() {
  return static_cast<std::size_t>(2 * kPack * (kColumnThreads + 32 / kPack % 32) + kColumnThreads) * sizeof(float);
}

// Where the parts of a block go for merge_parts.
struct PartStore {
  float2* to;

  __device__ __forceinline__ PartStore(const Columns& c, const ColumnPlace& place, float2* parts)
      : to(parts + ((place.group * c.chunks + place.chunk) * c.tiles + place.tile) * c.tile_channels) {}
  __device__ __forceinline__ void operator()(int slot, float first, float second) const {
    to[slot] = make_float2(first, second);
  }
};
inline std::size_t column_parts_bytes(const Columns& c) {
  return static_cast<std::size_t>(c.groups * c.chunks * c.tiles * c.tile_channels) * sizeof(float2);
}

inline constexpr int kMergeChannels = 32;  // channels a block, side by side
inline constexpr int kMergeThreads = 1024;

inline unsigned merge_blocks(const Columns& c) {
  return static_cast<unsigned>((c.channels + kMergeChannels - 1) / kMergeChannels);
}

// Calls result.begin(channel), result.add(group, channel, part) in group order, result.end(channel), by one thread a
// channel. For kernels of kMergeThreads threads and merge_blocks blocks.
template <class Part, class Result>
__device__ __forceinline__ void merge_parts(const Columns& c, const float2* parts, Result& result) {
  constexpr int kDown = kMergeThreads / kMergeChannels;
  __shared__ Part merged[kDown][kMergeChannels];  // 12 bytes each: three banks apart, no conflicts
  const int across = static_cast<int>(threadIdx.x) % kMergeChannels;
  const int down = static_cast<int>(threadIdx.x) / kMergeChannels;
  const int channel = static_cast<int>(blockIdx.x) * kMergeChannels + across;
  const bool inside = channel < c.channels;
  const int begin = channel * c.columns_per_channel;
  const int end = begin + c.columns_per_channel;
  const int first_tile = begin / c.tile_columns;
  const int tiles = inside ? (end - 1) / c.tile_columns - first_tile + 1 : 0;
  if (inside && down == 0) result.begin(channel);
  for (std::int64_t group = 0; group < c.groups; ++group) {
    Part part{0, 0, 0};
    for (int k = down; k < c.chunks * tiles; k += kDown) {
      const int chunk = k / tiles;
      const int tile = first_tile + k - chunk * tiles;
      const std::int64_t rows = min(c.chunk_rows, c.rows - chunk * c.chunk_rows);
      const int columns = min(end, c.tile_end(tile)) - max(begin, tile * c.tile_columns);
      const float2 values =
          parts[((group * c.chunks + chunk) * c.tiles + tile) * c.tile_channels + channel - c.first_channel(tile)];
      part.merge({static_cast<float>(rows * columns), values.x, values.y});
    }
    merged[down][across] = part;
    __syncthreads();
#pragma unroll
    for (int half = kDown / 2; half > 0; half /= 2) {
      if (down < half) {
        part.merge(merged[down + half][across]);
        merged[down][across] = part;
      }
      __syncthreads();
    }
    if (inside && down == 0) result.add(group, channel, part);
  }
  if (inside && down == 0) result.end(channel);
}

}  // namespace trifold::cuda
