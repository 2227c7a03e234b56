// Pooling of NCHW images. Neighbouring images, or rows of a large one, are one piece of memory: a block brings its
// piece into shared memory by whole packs and pools from there, so that windows which overlap, or start at any address,
// cost no further traffic.
#include <optional>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/pooling_kernels.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPieceElements = 4096;  // of whole images
constexpr int kBandElements = 8192;   // of rows of one image: more, because its first and last are read twice
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
__host__ __device__ constexpr std::size_t staged_bytes(int elements, std::size_t element_bytes) {
  return (static_cast<std::size_t>(elements) * element_bytes + 15) / 16 * 16 + 16;
}

// Brings from[begin] and the `count` - 1 after it into shared memory by whole packs, as far as the tensor's `elements`
// go; element i is found at the returned place + i.
template <class T>
__device__ __forceinline__ const T* stage(const T* from, std::int64_t elements, std::int64_t begin, int count,
                                          std::byte* memory) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(T));
  T* to = reinterpret_cast<T*>(memory);
  const int before = static_cast<int>(begin % kPack);
  begin -= before;
  for (int at = static_cast<int>(threadIdx.x) * kPack; at < before + count; at += kThreads * kPack) {
    if (begin + at + kPack <= elements) {
      *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(from + begin + at);
    } else {
      for (int i = at; begin + i < elements; ++i) to[i] = from[begin + i];
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

// Where x lies in shared memory: rows and columns that are a stride apart are neighbours, in a plane for each row and
// column between them. A plane's rows follow one another as those of y do, up to whole turns of the banks. So the
// windows of a warp, which follow one another in y, read from a bank each. All are floats: a bank holds one.
struct Planes {
  int row_pitch, image_pitch, plane_pitch;
  bool as_in_memory;  // nothing moves
  std::size_t bytes;

  __device__ __forceinline__ int place(const Windows& w, int image, int row, int column) const {
    std::uint32_t row_between, column_between;
    const std::uint32_t cell_row = w.by_stride_height.divide(static_cast<std::uint32_t>(row), &row_between);
    const std::uint32_t cell_column = w.by_stride_width.divide(static_cast<std::uint32_t>(column), &column_between);
    const std::uint32_t plane = row_between * w.stride_width + column_between;
    return static_cast<int>(plane * plane_pitch + image * image_pitch + cell_row * row_pitch + cell_column);
  }
};

template <class T>
struct ForwardArgs {
  Windows windows;
  Pieces pieces;
  Planes planes;
  FastDivisor height, width;  // of x
  const T* x;
  T* y;
  std::uint8_t* argmax;  // or null
};

// What a block needs of x.
struct Staged {
  std::int64_t begin;  // first element
  int count;
  int top;     // the first element's row in its image
  int origin;  // the row that is row 0 in shared memory: a multiple of the stride
};

// A warp loads neighbours, and stores row by row: within a row all go to banks of their own.
template <class T>
__device__ __forceinline__ void stage_planes(const ForwardArgs<T>& args, const Staged& staged, float* to) {
  constexpr int kAtOnce = 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Warps begin at whole sectors.
  for (int warp = static_cast<int>(threadIdx.x) - lane - static_cast<int>(staged.begin % 32); warp < staged.count;
       warp += kThreads * kAtOnce) {
    T values[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = warp + k * kThreads + lane;
      if (i >= 0 && i < staged.count) values[k] = args.x[staged.begin + i];
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = warp + k * kThreads + lane;
      std::uint32_t column, image_row;
      const std::uint32_t row =
          args.width.divide(static_cast<std::uint32_t>(min(max(i, 0), staged.count - 1)), &column);
      const std::uint32_t image = args.height.divide(row + staged.top, &image_row);
      const int place = args.planes.place(args.windows, static_cast<int>(image),
                                          static_cast<int>(image_row) - staged.origin, static_cast<int>(column));
      const std::uint32_t turn = args.planes.as_in_memory ? 0 : row;
      const std::uint32_t last = __shfl_sync(0xffffffffu, turn, 31);
      for (std::uint32_t each = __shfl_sync(0xffffffffu, turn, 0); each <= last; ++each)
        if (turn == each && i >= 0 && i < staged.count) to[place] = to_float(values[k]);
    }
  }
}

template <class T, PoolKind kKind>
__global__ void __launch_bounds__(kThreads) pool_pieces(ForwardArgs<T> args) {
  extern __shared__ uint4 shared_packs[];
  float* x = reinterpret_cast<float*>(shared_packs);
  const Windows& w = args.windows;
  for (std::uint32_t index = blockIdx.x; index < args.pieces.count; index += gridDim.x) {
    const Piece piece = piece_at(args.pieces, index);
    const bool whole = args.pieces.bands.divisor() == 1;
    const int top = whole ? 0 : max(0, w.rows_of(piece.first_row).first);
    const int bottom = whole ? w.height : min(w.height, w.rows_of(piece.end_row - 1).first + w.kernel_height);
    const int origin = static_cast<int>(w.by_stride_height.divide(static_cast<std::uint32_t>(top))) * w.stride_height;
    stage_planes(args,
                 {.begin = (std::int64_t{piece.first_image} * w.height + top) * w.width,
                  .count = piece.images * (bottom - top) * w.width,
                  .top = top,
                  .origin = origin},
                 x);
    __syncthreads();
    const std::int64_t base = (std::int64_t{piece.first_image} * w.out_height + piece.first_row) * w.out_width;
    for_each_written(args.pieces, piece, base, [&](std::int64_t to, int image, int p, int q) {
      const Windows::Span rows = w.rows_of(p);
      const Windows::Span columns = w.columns_of(q);
      WindowResult<kKind, 1> result;
      // All places, in step with the warp's other windows.
      for (int r = 0; r < w.kernel_height; ++r)
        for (int s = 0; s < w.kernel_width; ++s) {
          if (r < rows.begin || r >= rows.end || s < columns.begin || s >= columns.end) continue;
          const int at = args.planes.place(w, image, rows.first + r - origin, columns.first + s);
          result.add({x[at]}, r * w.kernel_width + s);
        }
      if constexpr (kKind == PoolKind::avg) result.value[0] /= w.divisor(rows, columns);
      args.y[to] = from_float<T>(result.value[0]);
      if (kKind == PoolKind::max && args.argmax != nullptr) args.argmax[to] = result.place[0];
    });
    __syncthreads();
  }
}

template <class T>
struct BackwardArgs {
  Windows windows;
  Pieces pieces;
  int staged_elements;  // most that a block has of each tensor in shared memory
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
  const std::size_t tensor_bytes = staged_bytes(args.staged_elements, sizeof(T));
  for (std::uint32_t index = blockIdx.x; index < args.pieces.count; index += gridDim.x) {
    const Piece piece = piece_at(args.pieces, index);
    const bool whole = args.pieces.bands.divisor() == 1;
    const int first_p = whole ? 0 : w.first_window_row(piece.first_row);
    const int end_p = whole ? w.out_height : w.end_window_row(piece.end_row - 1);
    const std::int64_t begin = (std::int64_t{piece.first_image} * w.out_height + first_p) * w.out_width;
    const int count = (whole ? piece.images * w.out_height : max(0, end_p - first_p)) * w.out_width;
    const std::int64_t elements = std::int64_t{args.pieces.images} * w.out_height * w.out_width;
    const T* dy = stage(args.dy, elements, begin, count, memory);
    const T* y = args.y == nullptr ? nullptr : stage(args.y, elements, begin, count, memory + tensor_bytes);
    const std::uint8_t* argmax = nullptr;
    if constexpr (kKind == PoolKind::max)
      argmax = stage(args.argmax, elements, begin, count, memory + (y == nullptr ? 1 : 2) * tensor_bytes);
    __syncthreads();
    const std::int64_t base = (std::int64_t{piece.first_image} * w.height + piece.first_row) * w.width;
    for_each_written(args.pieces, piece, base, [&](std::int64_t to, int image, int row, int column) {
      const int last_p = static_cast<int>(w.by_stride_height.divide(static_cast<std::uint32_t>(row + w.pad_height)));
      const int last_q = static_cast<int>(w.by_stride_width.divide(static_cast<std::uint32_t>(column + w.pad_width)));
      float dx = 0;
      // As many windows for each element, in step with the warp's others.
      for (int p = last_p - w.covering_rows(1) + 1; p <= last_p; ++p)
#pragma unroll 1  // else some GPUs run out of registers
        for (int q = last_q - w.covering_columns(1) + 1; q <= last_q; ++q) {
          const Windows::Span rows = w.rows_of(p);
          const Windows::Span columns = w.columns_of(q);
          const int r = row - rows.first;
          const int s = column - columns.first;
          if (p < 0 || p >= w.out_height || r >= w.kernel_height) continue;
          if (q < 0 || q >= w.out_width || s >= w.kernel_width) continue;
          const int at = (image * w.out_height + p - first_p) * w.out_width + q;
          const float d = y == nullptr || to_float(y[at]) > 0 ? to_float(dy[at]) : 0.0f;
          if constexpr (kKind == PoolKind::avg)
            dx += d / w.divisor(rows, columns);
          else
            dx += argmax[at] == r * w.kernel_width + s ? d : 0.0f;
        }
      args.dx[to] = from_float<T>(dx);
    });
    __syncthreads();
  }
}

// One side of a pooling op: the images that blocks write, and those that they stage.
struct Sides {
  std::int64_t images;
  int rows, columns;                // written
  int staged_rows, staged_columns;  // of the other side's images
  // Rows of the other side that `count` written rows need at most.
  int (Windows::*rows_needed)(int count) const;
};

// bytes(images, rows): of shared memory for a piece. Nothing where not even one row fits.
template <class Bytes>
std::optional<Pieces> cut(const Windows& windows, const Sides& sides, const Bytes& bytes, const CudaDevice& device) {
  Pieces pieces{};
  pieces.images = static_cast<std::uint32_t>(sides.images);
  pieces.rows = FastDivisor(sides.rows);
  pieces.columns = FastDivisor(sides.columns);
  const std::int64_t larger =
      std::max(std::int64_t{sides.rows} * sides.columns, std::int64_t{sides.staged_rows} * sides.staged_columns);
  if (larger <= kPieceElements && bytes(1, sides.rows) <= kSharedBytes) {
    const std::int64_t most = std::max<std::int64_t>(1, kPieceElements / larger);
    const std::int64_t fair = std::max<std::int64_t>(1, sides.images / (std::int64_t{4} * device.multiprocessors()));
    pieces.images_per_piece = static_cast<int>(std::min(most, fair));
    while (bytes(pieces.images_per_piece, sides.rows) > kSharedBytes) --pieces.images_per_piece;
    pieces.band_rows = sides.rows;
    pieces.count = static_cast<std::uint32_t>((sides.images + pieces.images_per_piece - 1) / pieces.images_per_piece);
    return pieces;
  }
  const auto staged_elements = [&](int rows) {
    return std::int64_t{std::min(sides.staged_rows, (windows.*sides.rows_needed)(rows))} * sides.staged_columns;
  };
  const auto too_much = [&](int rows) {
    return std::max(std::int64_t{rows} * sides.columns, staged_elements(rows)) > kBandElements ||
           bytes(1, rows) > kSharedBytes;
  };
  // Two bands at least: with one the pieces would be whole images.
  int bands = 2;
  const auto band_rows = [&] { return (sides.rows + bands - 1) / bands; };
  while (band_rows() > 1 && too_much(band_rows())) ++bands;
  if (sides.rows < bands || bytes(1, band_rows()) > kSharedBytes) return std::nullopt;
  pieces.images_per_piece = 1;
  pieces.band_rows = band_rows();
  bands = (sides.rows + pieces.band_rows - 1) / pieces.band_rows;
  pieces.bands = FastDivisor(bands);
  pieces.count = static_cast<std::uint32_t>(sides.images * bands);
  return pieces;
}

Planes planes_of(const Windows& w, int images, int rows) {
  const auto cells = [](int extent, int stride) { return (extent + stride - 1) / stride; };
  const bool whole = rows == w.out_height;
  // A band begins anywhere between two multiples of the stride.
  const int cell_rows =
      whole ? cells(w.height, w.stride_height) : cells(w.rows_read(rows) + w.stride_height - 1, w.stride_height);
  Planes planes{};
  planes.row_pitch = bank_pitch(cells(w.width, w.stride_width), w.out_width, kBanks);
  planes.image_pitch = bank_pitch(cell_rows * planes.row_pitch, w.out_height * w.out_width, kBanks);
  planes.plane_pitch = bank_pitch(images * planes.image_pitch, cells(kBanks, w.stride_width), kBanks);
  planes.as_in_memory = w.stride_height == 1 && w.stride_width == 1 && planes.row_pitch == w.width &&
                        (images == 1 || planes.image_pitch == w.height * w.width);
  planes.bytes = static_cast<std::size_t>(w.stride_height) * w.stride_width * planes.plane_pitch * sizeof(float);
  return planes;
}

}  // namespace

bool pool_planar(const PoolForwardArgs& args, const CudaDevice& device, cudaStream_t stream) {
  const Windows& w = args.windows;
  const Sides sides{.images = args.samples * args.channels,
                    .rows = w.out_height,
                    .columns = w.out_width,
                    .staged_rows = w.height,
                    .staged_columns = w.width,
                    .rows_needed = &Windows::rows_read};
  const auto bytes = [&](int images, int rows) { return planes_of(w, images, rows).bytes; };
  const std::optional<Pieces> pieces = cut(w, sides, bytes, device);
  if (!pieces) return false;
  with_element(args.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    const ForwardArgs<T> kernel_args{w,
                                     *pieces,
                                     planes_of(w, pieces->images_per_piece, pieces->band_rows),
                                     FastDivisor(w.height),
                                     FastDivisor(w.width),
                                     static_cast<const T*>(args.x),
                                     static_cast<T*>(args.y),
                                     args.argmax};
    const auto launch = [&](auto kernel) {
      kernel<<<blocks_for(pieces->count, 1, device, 16), kThreads, kernel_args.planes.bytes, stream>>>(kernel_args);
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
  const Sides sides{.images = args.samples * args.channels,
                    .rows = w.height,
                    .columns = w.width,
                    .staged_rows = w.out_height,
                    .staged_columns = w.out_width,
                    .rows_needed = &Windows::covering_rows};
  const auto staged_elements = [&](int images, int rows) {
    return images * std::min(w.out_height, w.covering_rows(rows)) * w.out_width;
  };
  const auto bytes = [&](int images, int rows) {
    const int elements = staged_elements(images, rows);
    return (args.y == nullptr ? 1 : 2) * staged_bytes(elements, size_of(args.dtype)) +
           (args.kind == PoolKind::max ? staged_bytes(elements, 1) : 0);
  };
  const std::optional<Pieces> pieces = cut(w, sides, bytes, device);
  if (!pieces || !aligned_for_packs(args.dy, args.y, args.argmax)) return false;
  with_element(args.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    const BackwardArgs<T> kernel_args{w,
                                      *pieces,
                                      staged_elements(pieces->images_per_piece, pieces->band_rows),
                                      static_cast<const T*>(args.dy),
                                      args.argmax,
                                      static_cast<const T*>(args.y),
                                      static_cast<T*>(args.dx)};
    const auto launch = [&](auto kernel) {
      kernel<<<blocks_for(pieces->count, 1, device, 16), kThreads, bytes(pieces->images_per_piece, pieces->band_rows),
               stream>>>(kernel_args);
      check_launch("unpool_pieces");
    };
    if (args.kind == PoolKind::max)
      launch(unpool_pieces<T, PoolKind::max>);
    else
      launch(unpool_pieces<T, PoolKind::avg>);
  });
  return true;
}

}  // namespace trifold::cuda
