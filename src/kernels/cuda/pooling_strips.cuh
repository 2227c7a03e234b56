// How NHWC images are cut for pooling: into strips, some columns wide and so many channels deep that those of a pixel
// are whole sectors. A block walks down its strip. Rows and columns are those that it writes (of y forward, of dx
// backward); it reads the other side's and keeps those that are needed again in a ring of rows in shared memory.
#pragma once

#include <algorithm>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/pooling.cuh"

namespace trifold::cuda {

inline constexpr int kStripThreads = 256;

struct Strips {
  FastDivisor chunks, across, down;     // blocks are (sample, down, across, chunk), the last fastest
  FastDivisor packs;                    // of a chunk's channels
  int pixel_packs;                      // of all channels
  int rows, columns;                    // of a strip
  int step_rows;                        // between two barriers
  FastDivisor read_line, written_line;  // items of a row, (column, pack), in whole warps
  FastDivisor ring_rows;                // of the other side
  int runs, run_columns;                // of a row in the ring
  std::uint32_t blocks;
  std::size_t ring_bytes;

  // Where column `column` of a run begins, in packs. `row` counts from any row on.
  __device__ __forceinline__ int place(int row, int run, int column) const {
    std::uint32_t slot;
    ring_rows.divide(static_cast<std::uint32_t>(row), &slot);
    return ((static_cast<int>(slot) * runs + run) * run_columns + column) * static_cast<int>(packs.divisor());
  }
};

struct Strip {
  std::int64_t sample;
  int first_pack, packs;
  int first_row, end_row;
  int first_column, end_column;
};

// The block's strip of images of `rows` by `columns`.
__device__ __forceinline__ Strip strip_of_block(const Strips& s, int rows, int columns) {
  std::uint32_t chunk, across, down;
  Strip strip;
  strip.sample = s.down.divide(s.across.divide(s.chunks.divide(blockIdx.x, &chunk), &across), &down);
  strip.first_pack = static_cast<int>(chunk * s.packs.divisor());
  strip.packs = min(static_cast<int>(s.packs.divisor()), s.pixel_packs - strip.first_pack);
  strip.first_row = static_cast<int>(down) * s.rows;
  strip.end_row = min(rows, strip.first_row + s.rows);
  strip.first_column = static_cast<int>(across) * s.columns;
  strip.end_column = min(columns, strip.first_column + s.columns);
  return strip;
}

// Calls body(row, column, pack) for the items of `rows` lines; some lie past the strip's last column or pack.
template <class Body>
__device__ __forceinline__ void for_each_item(const FastDivisor& line, const FastDivisor& packs, int rows,
                                              const Body& body) {
  const auto items = static_cast<std::uint32_t>(rows) * line.divisor();
  for (std::uint32_t i = threadIdx.x; i < items; i += kStripThreads) {
    std::uint32_t rest, pack;
    const std::uint32_t row = line.divide(i, &rest);
    const std::uint32_t column = packs.divide(rest, &pack);
    body(static_cast<int>(row), static_cast<int>(column), static_cast<int>(pack));
  }
}

// One direction of pooling: what blocks write, and what of the other side that needs.
struct StripSides {
  std::int64_t samples, packs;
  int rows, columns;                           // written
  int pack_bytes;                              // of a pack that is written
  int (Windows::*rows_read)(int count) const;  // for so many written ones
  int (Windows::*columns_read)(int count) const;
  int read_pack_bytes;  // in shared memory
  // Columns that are `stride` apart are neighbours in the ring. Only the first `runs` such runs are needed.
  int stride, runs;
};

inline Strips plan_strips(const Windows& w, const StripSides& sides, const CudaDevice& device) {
  constexpr int kChunkBytes = 128;             // of a pixel's channels; of their places in windows, 32
  constexpr int kRowBytes = 36 * kChunkBytes;  // of a strip, read or written
  constexpr int kWantedBytes = 24 * 1024;      // of shared memory: several blocks fit
  constexpr int kMostBytes = 48 * 1024;
  const auto divided_up = [](std::int64_t value, std::int64_t by) { return static_cast<int>((value + by - 1) / by); };

  Strips s{};
  const int packs = static_cast<int>(std::min<std::int64_t>(sides.packs, kChunkBytes / sides.pack_bytes));
  const int chunks = divided_up(sides.packs, packs);
  const int pixel_bytes = packs * sides.read_pack_bytes;
  const int turn = std::max(1, kBanks * 4 / pixel_bytes);  // pixels that take all banks
  int read_columns = 0;
  int ring_row_bytes = 0;
  const auto set_columns = [&](int strips) {
    s.columns = divided_up(sides.columns, strips);
    read_columns = (w.*sides.columns_read)(s.columns);
    s.runs = sides.runs;
    // Neighbours, which are in different runs, are in different banks.
    s.run_columns = bank_pitch(divided_up(read_columns, sides.stride), divided_up(turn, sides.stride), turn);
    ring_row_bytes = s.runs * s.run_columns * pixel_bytes;
  };
  const auto fits = [&] {
    return std::max(s.columns, read_columns) * packs * sides.pack_bytes <= kRowBytes &&
           (w.*sides.rows_read)(1) * ring_row_bytes <= kMostBytes;
  };
  int strips = 1;
  for (set_columns(strips); s.columns > 1 && !fits(); set_columns(strips)) ++strips;
  strips = divided_up(sides.columns, s.columns);

  // Enough blocks for the GPU, but no strips so short that many rows would be read by two.
  const std::int64_t blocks = sides.samples * chunks * strips;
  const std::int64_t wanted = std::int64_t{4} * device.multiprocessors() / std::max<std::int64_t>(1, blocks);
  const std::int64_t most = std::max(1, sides.rows / (5 * w.kernel_height));
  s.rows = divided_up(sides.rows, std::clamp<std::int64_t>(wanted, 1, most));
  s.step_rows = 1;
  while (s.step_rows < s.rows && (w.*sides.rows_read)(s.step_rows + 1) * ring_row_bytes <= kWantedBytes) ++s.step_rows;

  s.chunks = FastDivisor(chunks);
  s.across = FastDivisor(strips);
  s.down = FastDivisor(divided_up(sides.rows, s.rows));
  s.packs = FastDivisor(packs);
  s.pixel_packs = static_cast<int>(sides.packs);
  s.read_line = FastDivisor(divided_up(read_columns * packs, 32) * 32);
  s.written_line = FastDivisor(divided_up(s.columns * packs, 32) * 32);
  s.ring_rows = FastDivisor((w.*sides.rows_read)(s.step_rows));
  s.ring_bytes = std::size_t{s.ring_rows.divisor()} * ring_row_bytes;
  const std::int64_t all = blocks * s.down.divisor();
  TRIFOLD_CHECK(all < (std::int64_t{1} << 31), "{} strips of images are too many for one launch", all);
  s.blocks = static_cast<std::uint32_t>(all);
  return s;
}

}  // namespace trifold::cuda
