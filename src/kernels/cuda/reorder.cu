// "reorder" between plain and channels-last tensors, which is a transposition of many matrices: [count, rows, columns]
// into [count, columns, rows]. A tile goes through shared memory; where a matrix is narrow the tile has its whole
// width, so that what is read (or written) is one piece of memory.
#include <optional>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/fast_divide.cuh"
#include "kernels/ops/shape_ops.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;

struct Transposition {
  std::int64_t count = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// From the plain order into `layout`; nothing for orders that are more than a transposition.
std::optional<Transposition> from_plain(const Layout& layout, const Shape& shape) {
  switch (layout.order) {
    case Order::channel_block:
      return Transposition{shape.batch() * shape.channels() / layout.block, layout.block, shape.pixels()};
    case Order::conv_last:
      return Transposition{shape[0], shape[1], shape[2] * shape[3]};
    case Order::column_block:
      return Transposition{shape[0] * (shape[1] / layout.pixels) / layout.block, layout.block, layout.pixels};
    default:
      return std::nullopt;
  }
}

Transposition transposition(const TensorDesc& from, const TensorDesc& to) {
  TRIFOLD_CHECK(from.layout.plain() != to.layout.plain(), "CUDA reorders from or to plain, not {} to {}",
                to_string(from), to_string(to));
  const std::optional<Transposition> found = from_plain(from.layout.plain() ? to.layout : from.layout, from.shape);
  TRIFOLD_CHECK(found, "CUDA has no reorder of {} to {}", to_string(from), to_string(to));
  if (from.layout.plain()) return *found;
  return {found->count, found->columns, found->rows};
}

struct Tiling {
  std::uint32_t rows, columns;  // of a matrix
  FastDivisor tile_rows, tile_columns;
  FastDivisor tiles_down, tiles_across;
  std::uint32_t tiles;  // of all matrices
  std::uint32_t pitch;  // of a tile's rows in shared memory
};

// A warp reads columns of `rows` elements, several if they are short: places 32 / rows banks apart, or else any odd
// number, keep its lanes in banks of their own.
std::int64_t pitch_of(std::int64_t rows, std::int64_t columns) {
  if (rows >= 32) return columns | 1;
  const std::int64_t apart = (32 + rows - 1) / rows % 32;
  return columns + ((apart - columns) % 32 + 32) % 32;
}

// Tiles have narrow sides whole, and up to a length those that are no whole sectors: rows then follow one another
// without a gap, and only the ends of the tile share a sector with its neighbours.
Tiling tiling_of(const Transposition& t, std::int64_t element_bytes) {
  constexpr std::int64_t kTile = 64, kWhole = 256, kNarrow = 8, kMostElements = 8192, kLeast = 32;
  const auto sectors = [&](std::int64_t side) { return side * element_bytes % 32 == 0; };
  const auto extent = [&](std::int64_t side, std::int64_t other) {
    if (side <= (sectors(side) ? kTile : kWhole)) return side;
    return other <= kNarrow ? kWhole : kTile;
  };
  const auto beside = [&](std::int64_t other) { return std::max(kLeast, kMostElements / other / kLeast * kLeast); };
  std::int64_t tile_rows = extent(t.rows, t.columns);
  std::int64_t tile_columns = extent(t.columns, t.rows);
  if (sectors(t.columns)) tile_columns = std::min(tile_columns, beside(tile_rows));
  tile_rows = std::min(tile_rows, beside(tile_columns));
  const std::int64_t down = (t.rows + tile_rows - 1) / tile_rows;
  const std::int64_t across = (t.columns + tile_columns - 1) / tile_columns;
  TRIFOLD_CHECK(t.rows * t.columns < (std::int64_t{1} << 31) && t.count * down * across < (std::int64_t{1} << 31),
                "{} matrices of {} x {} are too much for one reorder", t.count, t.rows, t.columns);
  return {.rows = static_cast<std::uint32_t>(t.rows),
          .columns = static_cast<std::uint32_t>(t.columns),
          .tile_rows = FastDivisor(tile_rows),
          .tile_columns = FastDivisor(tile_columns),
          .tiles_down = FastDivisor(down),
          .tiles_across = FastDivisor(across),
          .tiles = static_cast<std::uint32_t>(t.count * down * across),
          .pitch = static_cast<std::uint32_t>(pitch_of(tile_rows, tile_columns))};
}

// Elements are moved as the integers of their size, and lie in words of their own in shared memory.
template <class T>
__global__ void __launch_bounds__(kThreads) transpose(Tiling t, const T* from, T* to) {
  extern __shared__ std::uint32_t tile[];
  const std::uint32_t tile_elements = t.tile_rows.divisor() * t.tile_columns.divisor();
  for (std::uint32_t index = blockIdx.x; index < t.tiles; index += gridDim.x) {
    std::uint32_t across, down;
    const std::int64_t matrix = t.tiles_down.divide(t.tiles_across.divide(index, &across), &down);
    const std::int64_t base = matrix * t.rows * t.columns;
    const std::uint32_t first_row = down * t.tile_rows.divisor();
    const std::uint32_t first_column = across * t.tile_columns.divisor();
    const std::uint32_t rows = t.rows - first_row;  // left from here on
    const std::uint32_t columns = t.columns - first_column;
    for (std::uint32_t i = threadIdx.x; i < tile_elements; i += kThreads) {
      std::uint32_t column;
      const std::uint32_t row = t.tile_columns.divide(i, &column);
      if (row < rows && column < columns)
        tile[row * t.pitch + column] = from[base + std::int64_t{first_row + row} * t.columns + first_column + column];
    }
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < tile_elements; i += kThreads) {
      std::uint32_t row;
      const std::uint32_t column = t.tile_rows.divide(i, &row);
      if (row < rows && column < columns)
        to[base + std::int64_t{first_column + column} * t.rows + first_row + row] =
            static_cast<T>(tile[row * t.pitch + column]);
    }
    __syncthreads();
  }
}

class ReorderKernel final : public CudaKernel {
 public:
  explicit ReorderKernel(const KernelRequest& request)
      : CudaKernel(request),
        element_bytes_(size_of(request.in[0].dtype)),
        tiling_(tiling_of(transposition(request.in[0], request.out[0]), static_cast<std::int64_t>(element_bytes_))) {
    TRIFOLD_CHECK(element_bytes_ <= 4, "no reorder of elements of {} bytes", element_bytes_);
  }

  void run(const StepContext&) override {
    if (tiling_.tiles == 0) return;
    if (element_bytes_ == 4) return launch<std::uint32_t>();
    element_bytes_ == 2 ? launch<std::uint16_t>() : launch<std::uint8_t>();
  }

 private:
  template <class T>
  void launch() {
    const std::size_t tile_bytes = tiling_.tile_rows.divisor() * tiling_.pitch * sizeof(std::uint32_t);
    transpose<T>
        <<<blocks_for(tiling_.tiles, 1, device(), 16), kThreads, tile_bytes, stream()>>>(tiling_, in<T>(0), out<T>(0));
    check_launch("transpose");
  }

  std::size_t element_bytes_;
  Tiling tiling_;
};

const RegisterKernel register_reorder(cuda_backend(), "reorder", make_kernel<ReorderKernel>);

}  // namespace
}  // namespace trifold::cuda
