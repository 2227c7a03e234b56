// An activation as a matrix for channel-wise kernels: columns that each belong to one channel, and rows that repeat
// them. NCHW is [samples, C * pixels], NHWC [samples * pixels, C]. Both lie in memory row by row, so loads are
// coalesced and aligned whatever the size of an image; a thread keeps its columns and walks down the rows. Rows come in
// groups that are treated apart (the groups of a batch norm, or single samples).
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"

namespace trifold::cuda {

inline constexpr int kColumnThreads = 256;
inline constexpr int kMostTileColumns = 1024;

// How the matrix is cut: a block has a tile of columns and a chunk of one group's rows. kPack columns a thread.
struct Columns {
  int columns = 0;
  int channels = 0;
  int columns_per_channel = 1;
  std::int64_t groups = 0;
  std::int64_t rows = 0;  // a group
  int tile_columns = 0;
  int tiles = 0;
  int tile_channels = 0;  // most channels that a tile meets
  int threads_across = 0;
  int threads_down = 0;
  std::int64_t chunk_rows = 0;
  int chunks = 0;

  unsigned blocks() const { return static_cast<unsigned>(groups * chunks * tiles); }

  __host__ __device__ int first_channel(int tile) const { return tile * tile_columns / columns_per_channel; }
  __host__ __device__ int tile_end(int tile) const {
    const int end = (tile + 1) * tile_columns;
    return end < columns ? end : columns;
  }
};

struct ColumnsRequest {
  ImageView view;
  std::int64_t group = 1;  // samples
  int pack = 1;            // columns a thread
  // Rows that a block should have at least, so that what it does once for each channel hardly counts.
  std::int64_t least_rows_per_channel = 64;
};

inline Columns plan_columns(const ColumnsRequest& request, const CudaDevice& device) {
  const ImageView& view = request.view;
  const bool planar = view.block == 1;
  const std::int64_t width = view.channels * (planar ? view.pixels : 1);
  TRIFOLD_CHECK(width < (std::int64_t{1} << 30), "a row of {} elements is too wide", width);
  Columns c;
  c.columns = static_cast<int>(width);
  c.channels = static_cast<int>(view.channels);
  c.columns_per_channel = planar ? static_cast<int>(view.pixels) : 1;
  c.groups = view.samples / request.group;
  c.rows = request.group * (planar ? 1 : view.pixels);

  // As many threads down as there are rows to share, each row of threads at least 32 packs across if there are so many.
  const int packs = (c.columns + request.pack - 1) / request.pack;
  int across = 32;
  while (across * request.pack < kMostTileColumns && kColumnThreads / across > c.rows) across *= 2;
  c.tiles = (packs + across - 1) / across;
  across = (packs + c.tiles - 1) / c.tiles;
  if (c.tiles > 1) across = (across + 7) / 8 * 8;  // tiles begin at whole sectors
  c.threads_across = across;
  c.threads_down = kColumnThreads / across;
  if (across % 2 == 1 && c.threads_down > 1) c.threads_down -= c.threads_down % 2;  // so do steps down
  c.tile_columns = across * request.pack;
  c.tiles = (c.columns + c.tile_columns - 1) / c.tile_columns;
  const int met = (c.tile_columns + c.columns_per_channel - 2) / c.columns_per_channel + 1;
  c.tile_channels = std::min(c.channels, met);

  const std::int64_t least =
      std::max<std::int64_t>(4 * c.threads_down, request.least_rows_per_channel / c.columns_per_channel);
  const std::int64_t wanted = std::int64_t{8} * device.multiprocessors() / (c.groups * c.tiles);
  const std::int64_t chunks = std::max<std::int64_t>(1, std::min(wanted, c.rows / least));
  c.chunk_rows = (c.rows + chunks - 1) / chunks;
  c.chunk_rows = (c.chunk_rows + c.threads_down - 1) / c.threads_down * c.threads_down;
  c.chunks = static_cast<int>((c.rows + c.chunk_rows - 1) / c.chunk_rows);
  return c;
}

// Columns a thread where rows and pointers allow packs; 1 where not. Rows are whole bytes of bit masks then, too.
template <class... T>
bool packs_fit(const ImageView& view, const T*... pointers) {
  const std::int64_t width = view.channels * (view.block == 1 ? view.pixels : 1);
  return width % 8 == 0 && aligned_for_packs(pointers...);
}

// What one thread has to do.
struct ColumnPlace {
  std::int64_t group;
  int chunk, tile;
  int across, down;           // place among the block's threads
  int column;                 // its first
  std::int64_t row, end_row;  // rows row, row + threads_down, ... of the whole matrix; none for a thread outside
};

template <int kPack>
__device__ __forceinline__ ColumnPlace column_place(const Columns& c) {
  ColumnPlace place;
  const int tile_and_chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(c.tiles * c.chunks));
  place.group = blockIdx.x / static_cast<unsigned>(c.tiles * c.chunks);
  place.chunk = tile_and_chunk / c.tiles;
  place.tile = tile_and_chunk - place.chunk * c.tiles;
  place.down = static_cast<int>(threadIdx.x) / c.threads_across;
  place.across = static_cast<int>(threadIdx.x) - place.down * c.threads_across;
  place.column = place.tile * c.tile_columns + place.across * kPack;
  const std::int64_t first = place.chunk * c.chunk_rows;
  const std::int64_t end = min(c.rows, first + c.chunk_rows);
  const bool inside = place.down < c.threads_down && place.column < c.columns;
  place.row = place.group * c.rows + first + place.down;
  place.end_row = inside ? place.group * c.rows + end : 0;
  return place;
}

// Calls use(index of the thread's first element, load(index)) for its rows, top down. Rows are loaded two at a time:
// the second load need not wait for what is stored of the first.
template <class Load, class Use>
__device__ __forceinline__ void for_each_row(const Columns& c, const ColumnPlace& place, const Load& load,
                                             const Use& use) {
  const std::int64_t step = std::int64_t{c.threads_down} * c.columns;
  std::int64_t at = place.row * c.columns + place.column;
  std::int64_t row = place.row;
  for (; row + c.threads_down < place.end_row; row += 2 * c.threads_down, at += 2 * step) {
    const auto upper = load(at);
    const auto lower = load(at + step);
    use(at, upper);
    use(at + step, lower);
  }
  if (row < place.end_row) use(at, load(at));
}

// Values that belong to a tile's channels, in shared memory. Neighbours lie kPack apart in banks of their own: threads
// that read kPack neighbours each, one after the other, do not meet in a bank.
template <int kPack>
struct ChannelTable {
  float* values;
  int stride;

  __host__ __device__ static int stride_for(int channels) {
    constexpr int kStep = 32 / kPack;
    return (channels + kPack - 1) / kPack / 32 * 32 + 32 + kStep % 32;
  }
  __host__ __device__ static int floats_for(int channels) { return stride_for(channels) * kPack; }

  __device__ __forceinline__ float& operator[](int channel) const {
    return values[channel % kPack * stride + channel / kPack];
  }
};

// coefficients[k][i] of the thread's column i, from make(channel, float (&)[kValues]), which is called once a channel
// and block. Needs kValues * ChannelTable<kPack>::floats_for(tile_channels) floats of dynamic shared memory.
template <int kPack, int kValues, class Make>
__device__ __forceinline__ void load_coefficients(const Columns& c, const ColumnPlace& place,
                                                  float (&coefficients)[kValues][kPack], const Make& make) {
  extern __shared__ float shared_floats[];
  const int first = c.first_channel(place.tile);
  const int count = (c.tile_end(place.tile) - 1) / c.columns_per_channel - first + 1;
  const int stride = ChannelTable<kPack>::stride_for(c.tile_channels);
  const auto table = [&](int k) { return ChannelTable<kPack>{shared_floats + k * stride * kPack, stride}; };
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kColumnThreads) {
    float values[kValues];
    make(first + i, values);
#pragma unroll
    for (int k = 0; k < kValues; ++k) table(k)[i] = values[k];
  }
  __syncthreads();
  int channel = place.column / c.columns_per_channel;
  int rest = place.column - channel * c.columns_per_channel;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    // A pack never ends outside: threads past the last column read the last channel and use nothing of it.
    const int slot = min(channel - first, count - 1);
#pragma unroll
    for (int k = 0; k < kValues; ++k) coefficients[k][i] = table(k)[slot];
    if (++rest == c.columns_per_channel) {
      rest = 0;
      ++channel;
    }
  }
}
template <int kPack, int kValues>
std::size_t coefficient_bytes(const Columns& c) {
  return static_cast<std::size_t>(kValues * ChannelTable<kPack>::floats_for(c.tile_channels)) * sizeof(float);
}

}  // namespace trifold::cuda
