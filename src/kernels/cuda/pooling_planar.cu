// Pooling of NCHW images. Neighbouring images, or rows of a large one, are one piece of memory: a block brings its
// piece into shared memory by whole packs and pools from there, so that windows which overlap, or start at any address,
// cost no further traffic.
#include <optional>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/pooling_kernels.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPieceElements = 4096;
constexpr std::size_t kSharedBytes = 48 * 1024;

// How images are cut into pieces: several whole images, or a band of rows of one. The rows are those that a block
// writes: of y forward, of dx backward.
struct Pieces {
  int images_per_piece;
  int band_rows;
  FastDivisor bands;  // of an image; 1 unless images_per_piece is
  FastDivisor rows, columns;
  std::uint32_t images;
  std::uint32_t count;
  int staged_elements;  // most that a block has in shared memory
};

struct Piece {
  std::uint32_t first_image;
  int images;
  int first_row, end_row;
};

__device__ __forceinline__ Piece piece_at(const Pieces& pieces, std::uint32_t index) {
  std::uint32_t band;
  const std::uint32_t group = pieces.bands.divide(index, &band);
  Piece piece;
  piece.first_image = group * pieces.images_per_piece;
  piece.images =
      static_cast<int>(min(static_cast<std::uint32_t>(pieces.images_per_piece), pieces.images - piece.first_image));
  piece.first_row = static_cast<int>(band) * pieces.band_rows;
  piece.end_row = min(static_cast<int>(pieces.rows.divisor()), piece.first_row + pieces.band_rows);
  return piece;
}

// Bytes of shared memory for `elements` of a type, with room for where they start within a pack.
template <class T>
__host__ __device__ constexpr std::size_t staged_bytes(int elements) {
  return (static_cast<std::size_t>(elements) * sizeof(T) + 15) / 16 * 16 + 16;
}

// Brings from[begin] and the `count` - 1 after it into shared memory; element i is found at the returned place + i.
template <class T>
__device__ __forceinline__ const T* stage(const T* from, std::int64_t begin, int count, std::byte* memory) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(T));
  T* to = reinterpret_cast<T*>(memory);
  const int before = static_cast<int>(begin % kPack);
  from += begin - before;
  for (int at = static_cast<int>(threadIdx.x) * kPack; at < before + count; at += kThreads * kPack) {
    if (at >= before && at + kPack <= before + count) {
      *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(from + at);
    } else {
      for (int i = max(at, before); i < min(at + kPack, before + count); ++i) to[i] = from[i];
    }
  }
  return to + before;
}

// Calls body(index, image, row, column) for what the piece writes; `base` is the index of its first element in memory.
// Warps begin at whole sectors of it.
template <class Body>
__device__ __forceinline__ void for_each_written(const Pieces& pieces, const Piece& piece, std::int64_t base,
                                                 const Body& body) {
  const int total = piece.images * (piece.end_row - piece.first_row) * static_cast<int>(pieces.columns.divisor());
  for (int i = static_cast<int>(threadIdx.x) - static_cast<int>(base % 32); i < total; i += kThreads) {
    if (i < 0) continue;
    std::uint32_t column;
    std::uint32_t row = pieces.columns.divide(static_cast<std::uint32_t>(i), &column);
    std::uint32_t image = 0;
    if (pieces.bands.divisor() == 1) image = pieces.rows.divide(row, &row);
    body(base + i, static_cast<int>(image), piece.first_row + static_cast<int>(row), static_cast<int>(column));
  }
}

template <class T>
struct ForwardArgs {
  Windows windows;
  Pieces pieces;
  const T* x;
  T* y;
  std::uint8_t* argmax;  // or null
};

template <class T, PoolKind kKind>
__global__ void __launch_bounds__(kThreads) pool_pieces(ForwardArgs<T> args) {
  extern __shared__ uint4 shared_packs[];
  const Windows& w = args.windows;
  for (std::uint32_t index = blockIdx.x; index < args.pieces.count; index += gridDim.x) {
    const Piece piece = piece_at(args.pieces, index);
    const bool whole = args.pieces.bands.divisor() == 1;
    const int top = whole ? 0 : max(0, w.rows_of(piece.first_row).first);
    const int bottom = whole ? w.height : min(w.height, w.rows_of(piece.end_row - 1).first + w.kernel_height);
    const T* x = stage(args.x, (std::int64_t{piece.first_image} * w.height + top) * w.width,
                       whole ? piece.images * w.height * w.width : (bottom - top) * w.width,
                       reinterpret_cast<std::byte*>(shared_packs));
    __syncthreads();
    const std::int64_t base = (std::int64_t{piece.first_image} * w.out_height + piece.first_row) * w.out_width;
    for_each_written(args.pieces, piece, base, [&](std::int64_t to, int image, int p, int q) {
      const Windows::Span rows = w.rows_of(p);
      const Windows::Span columns = w.columns_of(q);
      float result = 0;
      int place = 0;
      bool first = true;
      for (int r = rows.begin; r < rows.end; ++r)
        for (int s = columns.begin; s < columns.end; ++s) {
          const float value = to_float(x[(image * w.height + rows.first + r - top) * w.width + columns.first + s]);
          if constexpr (kKind == PoolKind::avg) {
            result += value;
          } else if (first || value > result) {
            result = value;
            place = r * w.kernel_width + s;
          }
          first = false;
        }
      if constexpr (kKind == PoolKind::avg) result /= w.divisor(rows, columns);
      args.y[to] = from_float<T>(result);
      if (kKind == PoolKind::max && args.argmax != nullptr) args.argmax[to] = static_cast<std::uint8_t>(place);
    });
    __syncthreads();
  }
}

template <class T>
struct BackwardArgs {
  Windows windows;
  Pieces pieces;
  const T* dy;
  const std::uint8_t* argmax;
  const T* y;  // or null
  T* dx;
};

template <class T, PoolKind kKind>
__global__ void __launch_bounds__(kThreads) unpool_pieces(BackwardArgs<T> args) {
  extern __shared__ uint4 shared_packs[];
  const Windows& w = args.windows;
  std::byte* memory = reinterpret_cast<std::byte*>(shared_packs);
  const std::size_t tensor_bytes = staged_bytes<T>(args.pieces.staged_elements);
  for (std::uint32_t index = blockIdx.x; index < args.pieces.count; index += gridDim.x) {
    const Piece piece = piece_at(args.pieces, index);
    const bool whole = args.pieces.bands.divisor() == 1;
    const int first_p = whole ? 0 : w.first_window_row(piece.first_row);
    const int end_p = whole ? w.out_height : w.end_window_row(piece.end_row - 1);
    const std::int64_t begin = (std::int64_t{piece.first_image} * w.out_height + first_p) * w.out_width;
    const int count = (whole ? piece.images * w.out_height : max(0, end_p - first_p)) * w.out_width;
    const T* dy = stage(args.dy, begin, count, memory);
    const T* y = args.y == nullptr ? nullptr : stage(args.y, begin, count, memory + tensor_bytes);
    const std::uint8_t* argmax = nullptr;
    if constexpr (kKind == PoolKind::max)
      argmax = stage(args.argmax, begin, count, memory + (y == nullptr ? 1 : 2) * tensor_bytes);
    __syncthreads();
    const std::int64_t base = (std::int64_t{piece.first_image} * w.height + piece.first_row) * w.width;
    for_each_written(args.pieces, piece, base, [&](std::int64_t to, int image, int row, int column) {
      const int last_p = w.end_window_row(row);
      const int last_q = w.end_window_column(column);
      float dx = 0;
      for (int p = w.first_window_row(row); p < last_p; ++p)
        for (int q = w.first_window_column(column); q < last_q; ++q) {
          const int at = (image * w.out_height + p - first_p) * w.out_width + q;
          const float d = y == nullptr || to_float(y[at]) > 0 ? to_float(dy[at]) : 0.0f;
          const Windows::Span rows = w.rows_of(p);
          const Windows::Span columns = w.columns_of(q);
          if constexpr (kKind == PoolKind::avg)
            dx += d / w.divisor(rows, columns);
          else if (argmax[at] == (row - rows.first) * w.kernel_width + column - columns.first)
            dx += d;
        }
      args.dx[to] = from_float<T>(dx);
    });
    __syncthreads();
  }
}

// One side of a pooling op: the images that blocks write, and those that they stage.
struct Sides {
  int rows, columns;                // written
  int staged_rows, staged_columns;  // of the other side's images
  // Rows of the other side that `rows` written rows need at most.
  int (*rows_needed)(const Windows& windows, int rows);
  std::size_t bytes_per_staged_element;
};

// Nothing where not even one row fits into shared memory.
std::optional<Pieces> cut(const Windows& windows, const Sides& sides, std::int64_t images, const CudaDevice& device) {
  Pieces pieces{};
  pieces.images = static_cast<std::uint32_t>(images);
  pieces.rows = FastDivisor(sides.rows);
  pieces.columns = FastDivisor(sides.columns);
  const auto fits = [&](std::int64_t staged) {
    return static_cast<std::size_t>(staged) * sides.bytes_per_staged_element + 3 * 32 <= kSharedBytes;
  };
  const std::int64_t written = std::int64_t{sides.rows} * sides.columns;
  const std::int64_t staged = std::int64_t{sides.staged_rows} * sides.staged_columns;
  const std::int64_t larger = std::max(written, staged);
  if (larger <= kPieceElements && fits(larger)) {
    const std::int64_t most = std::max<std::int64_t>(1, kPieceElements / larger);
    const std::int64_t fair = std::max<std::int64_t>(1, images / (std::int64_t{4} * device.multiprocessors()));
    pieces.images_per_piece = static_cast<int>(std::min(most, fair));
    pieces.band_rows = sides.rows;
    pieces.bands = FastDivisor(1);
    pieces.count = static_cast<std::uint32_t>((images + pieces.images_per_piece - 1) / pieces.images_per_piece);
    pieces.staged_elements = static_cast<int>(pieces.images_per_piece * staged);
    return fits(pieces.staged_elements) ? std::optional(pieces) : std::nullopt;
  }
  int band_rows = std::max(1, std::min(sides.rows, kPieceElements / sides.columns));
  const auto band_elements = [&] {
    return std::int64_t{std::min(sides.staged_rows, sides.rows_needed(windows, band_rows))} * sides.staged_columns;
  };
  while (band_rows > 1 && (band_elements() > kPieceElements || !fits(band_elements()))) band_rows = (band_rows + 1) / 2;
  if (!fits(band_elements())) return std::nullopt;
  pieces.images_per_piece = 1;
  pieces.band_rows = band_rows;
  // Two bands at least: with one the pieces would be whole images.
  const std::int64_t bands = (sides.rows + band_rows - 1) / band_rows;
  if (bands == 1) return std::nullopt;
  pieces.bands = FastDivisor(bands);
  pieces.count = static_cast<std::uint32_t>(images * bands);
  pieces.staged_elements = static_cast<int>(band_elements());
  return pieces;
}

int input_rows_needed(const Windows& w, int out_rows) {
  return (out_rows - 1) * w.stride_height + w.kernel_height;
}
int window_rows_needed(const Windows& w, int rows) {
  return (rows + w.kernel_height - 2) / w.stride_height + 1;
}

}  // namespace

bool pool_planar(const PoolForwardArgs& args, const CudaDevice& device, cudaStream_t stream) {
  const Windows& w = args.windows;
  const Sides sides{.rows = w.out_height,
                    .columns = w.out_width,
                    .staged_rows = w.height,
                    .staged_columns = w.width,
                    .rows_needed = input_rows_needed,
                    .bytes_per_staged_element = size_of(args.dtype)};
  const std::optional<Pieces> pieces = cut(w, sides, args.samples * args.channels, device);
  if (!pieces || !aligned_for_packs(args.x)) return false;
  with_element(args.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    const ForwardArgs<T> kernel_args{w, *pieces, static_cast<const T*>(args.x), static_cast<T*>(args.y), args.argmax};
    const auto launch = [&](auto kernel) {
      kernel<<<blocks_for(pieces->count, 1, device, 16), kThreads, staged_bytes<T>(pieces->staged_elements), stream>>>(
          kernel_args);
      check_launch("pool_pieces");
    };
    if (args.kind == PoolKind::max)
      launch(pool_pieces<T, PoolKind::max>);
    else
      launch(pool_pieces<T, PoolKind::avg>);
  });
  return true;
}

bool unpool_planar(const PoolBackwardArgs& args, const CudaDevice& device, cudaStream_t stream) {
  const Windows& w = args.windows;
  const int staged_tensors = args.y == nullptr ? 1 : 2;
  const bool has_argmax = args.kind == PoolKind::max;
  const Sides sides{.rows = w.height,
                    .columns = w.width,
                    .staged_rows = w.out_height,
                    .staged_columns = w.out_width,
                    .rows_needed = window_rows_needed,
                    .bytes_per_staged_element = staged_tensors * size_of(args.dtype) + (has_argmax ? 1 : 0)};
  const std::optional<Pieces> pieces = cut(w, sides, args.samples * args.channels, device);
  if (!pieces || !aligned_for_packs(args.dy, args.y, args.argmax)) return false;
  with_element(args.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    const BackwardArgs<T> kernel_args{w,
                                      *pieces,
                                      static_cast<const T*>(args.dy),
                                      args.argmax,
                                      static_cast<const T*>(args.y),
                                      static_cast<T*>(args.dx)};
    const std::size_t bytes = staged_tensors * staged_bytes<T>(pieces->staged_elements) +
                              (has_argmax ? staged_bytes<std::uint8_t>(pieces->staged_elements) : 0);
    const auto launch = [&](auto kernel) {
      kernel<<<blocks_for(pieces->count, 1, device, 16), kThreads, bytes, stream>>>(kernel_args);
      check_launch("unpool_pieces");
    };
    if (has_argmax)
      launch(unpool_pieces<T, PoolKind::max>);
    else
      launch(unpool_pieces<T, PoolKind::avg>);
  });
  return true;
}

}  // namespace trifold::cuda
