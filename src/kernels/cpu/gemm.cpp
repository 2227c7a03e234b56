// Cuts a product into a grid of parts over m, n and k, and each part into blocks that fit the caches: a panel of b in
// L1, a block of a in L2. b is always packed; a only if its rows are not contiguous.
#include "kernels/cpu/gemm.h"

#include <algorithm>

#include "core/divide.h"
#include "core/error.h"
#include "core/parallel.h"
#include "kernels/cpu/simd/isa.h"

TRIFOLD_DISPATCH(GemmLoops, gemm_loops)

namespace trifold::cpu {
namespace {

constexpr std::int64_t kBlockRows = 32 * kTileRows;  // x kBlockDepth floats of a: 192 KiB
constexpr std::int64_t kBlockColumns = 1024;
constexpr std::int64_t kBlockDepth = 256;        // x tile_columns floats of b: 16 KiB
constexpr std::int64_t kWorthSharing = 1 << 16;  // multiply-adds below which waking the team costs more than it saves

void check_matrix(std::int64_t size, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  TRIFOLD_CHECK(stride >= columns && size >= (rows - 1) * stride + columns,
                "{} floats do not hold {} rows of {}, {} apart", size, rows, columns, stride);
}

}  // namespace

Gemm::Gemm(const GemmShape& shape, int threads, const GemmLoops& loops) : shape_(shape), loops_(&loops) {
  TRIFOLD_CHECK(shape.m > 0 && shape.n > 0 && shape.k > 0 && threads > 0, "product of {}x{}x{} on {} threads", shape.m,
                shape.n, shape.k, threads);
  if (shape.m * shape.n * shape.k >= kWorthSharing) grid_ = best_grid(threads);
}

// The grid with the shortest part, in cycles of a core that does two vectors of multiply-adds a cycle.
Gemm::Grid Gemm::best_grid(int threads) const {
  const double flops_a_cycle = 2.0 * loops_->lanes;
  Grid best;
  double best_cycles = 0;
  for (int m = 1; m <= threads; ++m) {
    for (int n = 1; m * n <= threads; ++n) {
      const Grid grid{.m = m, .n = n, .k = threads / (m * n)};
      if (grid.parts() != threads) continue;
      const double rows = static_cast<double>(round_up(ceil_div(shape_.m, m), kTileRows));
      const double columns = static_cast<double>(round_up(ceil_div(shape_.n, n), loops_->tile_columns));
      const double depth = static_cast<double>(ceil_div(shape_.k, grid.k));
      double cycles = rows * columns * depth / flops_a_cycle;
      cycles += columns * depth * (shape_.b_transposed ? 0.5 : 0.25);
      if (shape_.a_transposed) cycles += rows * depth * 0.5;
      if (grid.k > 1) cycles += 5000.0 + static_cast<double>(shape_.m * shape_.n) * (grid.k + 1) * 0.25 / threads;
      if (best_cycles == 0 || cycles < best_cycles) {
        best_cycles = cycles;
        best = grid;
      }
    }
  }
  return best;
}

std::int64_t Gemm::part_scratch_floats() const {
  const std::int64_t depth = std::min(kBlockDepth, shape_.k);
  const std::int64_t columns = std::min(kBlockColumns, round_up(shape_.n, loops_->tile_columns));
  const std::int64_t rows = shape_.a_transposed ? std::min(kBlockRows, round_up(shape_.m, kTileRows)) : 0;
  return round_up(depth * columns, 16) + round_up(depth * rows, 16);
}

std::size_t Gemm::scratch_bytes() const {
  const std::int64_t slices = grid_.k > 1 ? round_up(grid_.k * shape_.m * shape_.n, 16) : 0;
  return static_cast<std::size_t>(slices + grid_.parts() * part_scratch_floats()) * sizeof(float);
}

void Gemm::run(const GemmArgs& args, std::span<std::byte> scratch) const {
  check_matrix(std::ssize(args.a), shape_.a_transposed ? shape_.k : shape_.m, shape_.a_transposed ? shape_.m : shape_.k,
               args.a_stride);
  check_matrix(std::ssize(args.b), shape_.b_transposed ? shape_.n : shape_.k, shape_.b_transposed ? shape_.k : shape_.n,
               args.b_stride);
  check_matrix(std::ssize(args.c), shape_.m, shape_.n, args.c_stride);
  TRIFOLD_CHECK(args.bias.empty() || std::ssize(args.bias) == shape_.n, "bias of {} for {} columns", args.bias.size(),
                shape_.n);
  TRIFOLD_CHECK(scratch.size() >= scratch_bytes() && reinterpret_cast<std::uintptr_t>(scratch.data()) % 64 == 0,
                "scratch of {} bytes, needs {} aligned ones", scratch.size(), scratch_bytes());
  float* const floats = reinterpret_cast<float*>(scratch.data());
  if (grid_.parts() == 1) return run_part(args, floats, 0);
  parallel([&](int thread, int team) {
    for (int part = thread; part < grid_.parts(); part += team) run_part(args, floats, part);
  });
  if (grid_.k == 1) return;
  parallel_for(shape_.m, [&](Range rows) { add_slices(args, floats, rows.begin, rows.end); });
}

void Gemm::run_part(const GemmArgs& args, float* scratch, int part) const {
  const int k_part = part / (grid_.m * grid_.n);
  const Range rows = share(shape_.m, part / grid_.n % grid_.m, grid_.m, kTileRows);
  const Range columns = share(shape_.n, part % grid_.n, grid_.n, loops_->tile_columns);
  const Range depth = share(shape_.k, k_part, grid_.k);

  const bool sliced = grid_.k > 1;  // then each part of k has a c of its own, and add_slices makes the result
  float* const c = sliced ? scratch + k_part * shape_.m * shape_.n : args.c.data();
  const std::int64_t c_stride = sliced ? shape_.n : args.c_stride;
  float* const packed_b =
      scratch + (sliced ? round_up(grid_.k * shape_.m * shape_.n, 16) : 0) + part * part_scratch_floats();
  float* const packed_a =
      packed_b +
      round_up(std::min(kBlockDepth, shape_.k) * std::min(kBlockColumns, round_up(shape_.n, loops_->tile_columns)), 16);

  const std::int64_t depth_step = depth.empty() ? 1 : ceil_div(depth.size(), ceil_div(depth.size(), kBlockDepth));
  for (std::int64_t j = columns.begin; j < columns.end; j += kBlockColumns) {
    const std::int64_t n = std::min(kBlockColumns, columns.end - j);
    for (std::int64_t l = depth.begin; l < depth.end; l += depth_step) {
      const std::int64_t k = std::min(depth_step, depth.end - l);
      const std::int64_t panel = loops_->tile_columns;
      if (shape_.b_transposed) {
        loops_->pack_rows(&args.b[static_cast<std::size_t>(j * args.b_stride + l)], args.b_stride, n, k, panel,
                          k * panel, packed_b);
      } else {
        loops_->pack_columns(&args.b[static_cast<std::size_t>(l * args.b_stride + j)], args.b_stride, k, n, panel,
                             k * panel, packed_b);
      }
      const bool last = l + k == depth.end;
      for (std::int64_t i = rows.begin; i < rows.end; i += kBlockRows) {
        const std::int64_t m = std::min(kBlockRows, rows.end - i);
        if (shape_.a_transposed) {
          loops_->pack_columns(&args.a[static_cast<std::size_t>(l * args.a_stride + i)], args.a_stride, k, m, kTileRows,
                               k * kTileRows, packed_a);
        }
        loops_->block({.m = m,
                       .n = n,
                       .k = k,
                       .a = shape_.a_transposed ? packed_a : &args.a[static_cast<std::size_t>(i * args.a_stride + l)],
                       .a_stride = shape_.a_transposed ? k * kTileRows : args.a_stride,
                       .a_packed = shape_.a_transposed,
                       .b = packed_b,
                       .b_panel_stride = k * panel,
                       .b_panel_columns = panel,
                       .c = c + i * c_stride + j,
                       .c_stride = c_stride,
                       .accumulate = l > depth.begin || (args.accumulate && !sliced),
                       .bias = last && !sliced && !args.bias.empty() ? args.bias.data() + j : nullptr,
                       .relu = last && !sliced && args.relu});
      }
    }
  }
}

void Gemm::add_slices(const GemmArgs& args, const float* slices, std::int64_t row_begin, std::int64_t row_end) const {
  for (std::int64_t i = row_begin; i < row_end; ++i) {
    float* c = args.c.data() + i * args.c_stride;
    for (std::int64_t j = 0; j < shape_.n; ++j) {
      float sum = args.accumulate ? c[j] : 0.0f;
      for (int k = 0; k < grid_.k; ++k) sum += slices[(k * shape_.m + i) * shape_.n + j];
      if (!args.bias.empty()) sum += args.bias[static_cast<std::size_t>(j)];
      c[j] = args.relu && !(sum > 0.0f) ? 0.0f : sum;
    }
  }
}

}  // namespace trifold::cpu
