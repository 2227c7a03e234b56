#include "kernels/cpu/linear_gemm.h"

#include <algorithm>

#include "core/divide.h"
#include "core/error.h"
#include "core/parallel.h"

namespace trifold::cpu {
namespace {

constexpr std::int64_t kSkinnyBatch = 32;
constexpr std::int64_t kForwardBlockFloats = 32 * 1024;  // of x transposed: a quarter of L2
constexpr std::int64_t kStripFloats = 16 * 1024;         // of dx: rows of w are then read by whole pages
constexpr std::int64_t kWeightsBlockFloats = 32 * 1024;  // of x, again a quarter of L2

std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

float* checked_scratch(std::span<std::byte> scratch, std::size_t needed) {
  TRIFOLD_CHECK(scratch.size() >= needed && reinterpret_cast<std::uintptr_t>(scratch.data()) % 64 == 0,
                "scratch of {} bytes, needs {} aligned ones", scratch.size(), needed);
  return reinterpret_cast<float*>(scratch.data());
}

void check_size(std::int64_t size, std::int64_t expected, const char* what) {
  TRIFOLD_CHECK(size == expected, "{} has {} elements, not {}", what, size, expected);
}

}  // namespace

LinearGemm::LinearGemm(const LinearShape& shape, int threads, const GemmLoops& loops)
    : shape_(shape), threads_(threads), loops_(&loops), skinny_(shape.batch <= kSkinnyBatch) {
  TRIFOLD_CHECK(shape.batch > 0 && shape.in > 0 && shape.out > 0 && threads > 0, "linear {} x {} -> {} on {} threads",
                shape.batch, shape.in, shape.out, threads);
  if (skinny_) return;
  forward_ = Gemm({.m = shape.batch, .n = shape.out, .k = shape.in, .b_transposed = true}, threads, loops);
  backward_data_ = Gemm({.m = shape.batch, .n = shape.in, .k = shape.out}, threads, loops);
  backward_weights_ = Gemm({.m = shape.out, .n = shape.in, .k = shape.batch, .a_transposed = true}, threads, loops);
}

std::int64_t LinearGemm::padded_batch() const {
  return round_up(shape_.batch, loops_->lanes);
}
std::int64_t LinearGemm::batch_panel() const {
  return std::min(padded_batch(), loops_->tile_columns);
}
std::int64_t LinearGemm::packed_dy_floats() const {
  return round_up(round_up(shape_.out, kTileRows) * shape_.batch, 16);
}

std::int64_t LinearGemm::strip_columns() const {
  return std::max(kStripFloats / shape_.batch / loops_->tile_columns, std::int64_t{1}) * loops_->tile_columns;
}

// Calls body(part) for each of threads_ parts, whatever the size of the team.
template <class Body>
void LinearGemm::for_each_part(Body&& body) const {
  parallel([&](int thread, int team) {
    for (int part = thread; part < threads_; part += team) body(part);
  });
}

std::size_t LinearGemm::forward_scratch_bytes() const {
  if (!skinny_) return forward_.scratch_bytes();
  return bytes_of(round_up(padded_batch(), batch_panel()) * shape_.in + shape_.out * padded_batch());
}

std::size_t LinearGemm::backward_data_scratch_bytes() const {
  if (!skinny_) return backward_data_.scratch_bytes();
  return bytes_of(packed_dy_floats() + threads_ * strip_columns() * shape_.batch);
}

std::size_t LinearGemm::backward_weights_scratch_bytes() const {
  if (!skinny_) return backward_weights_.scratch_bytes();
  return bytes_of(packed_dy_floats() + round_up(shape_.in, loops_->tile_columns) * shape_.batch);
}

void LinearGemm::forward(const LinearForwardArgs& args, std::span<std::byte> scratch) const {
  check_size(std::ssize(args.x), shape_.batch * shape_.in, "x");
  check_size(std::ssize(args.w), shape_.out * shape_.in, "w");
  check_size(std::ssize(args.y), shape_.batch * shape_.out, "y");
  if (!args.bias.empty()) check_size(std::ssize(args.bias), shape_.out, "bias");
  if (skinny_) return skinny_forward(args, checked_scratch(scratch, forward_scratch_bytes()));
  forward_.run({.a = args.x,
                .a_stride = shape_.in,
                .b = args.w,
                .b_stride = shape_.in,
                .c = args.y,
                .c_stride = shape_.out,
                .bias = args.bias,
                .relu = args.relu},
               scratch);
}

void LinearGemm::backward_data(const LinearBackwardDataArgs& args, std::span<std::byte> scratch) const {
  check_size(std::ssize(args.dy), shape_.batch * shape_.out, "dy");
  check_size(std::ssize(args.w), shape_.out * shape_.in, "w");
  check_size(std::ssize(args.dx), shape_.batch * shape_.in, "dx");
  if (skinny_) return skinny_backward_data(args, checked_scratch(scratch, backward_data_scratch_bytes()));
  backward_data_.run(
      {.a = args.dy, .a_stride = shape_.out, .b = args.w, .b_stride = shape_.in, .c = args.dx, .c_stride = shape_.in},
      scratch);
}

void LinearGemm::backward_weights(const LinearBackwardWeightsArgs& args, std::span<std::byte> scratch) const {
  check_size(std::ssize(args.x), shape_.batch * shape_.in, "x");
  check_size(std::ssize(args.dy), shape_.batch * shape_.out, "dy");
  check_size(std::ssize(args.dw), shape_.out * shape_.in, "dw");
  if (!args.dbias.empty()) {
    check_size(std::ssize(args.dbias), shape_.out, "dbias");
    loops_->column_sums(args.dy.data(), shape_.out, shape_.batch, shape_.out, args.accumulate, args.dbias.data());
  }
  if (skinny_) return skinny_backward_weights(args, checked_scratch(scratch, backward_weights_scratch_bytes()));
  backward_weights_.run({.a = args.dy,
                         .a_stride = shape_.out,
                         .b = args.x,
                         .b_stride = shape_.in,
                         .c = args.dw,
                         .c_stride = shape_.in,
                         .accumulate = args.accumulate},
                        scratch);
}

// Computes y transposed: rows of w are broadcast straight from where they lie against x transposed, whose lanes are
// samples and of which a block stays in L2 while all rows of w pass by.
void LinearGemm::skinny_forward(const LinearForwardArgs& args, float* scratch) const {
  const std::int64_t panel = batch_panel();
  const std::int64_t panel_stride = panel * shape_.in;
  float* const xt = scratch;                                           // panels of samples, [I][panel]
  float* const yt = xt + round_up(padded_batch(), panel) * shape_.in;  // [O][padded batch]
  for_each_part([&](int part) {
    const Range in = share(shape_.in, part, threads_, 16);
    loops_->pack_rows(args.x.data() + in.begin, shape_.in, shape_.batch, in.size(), panel, panel_stride,
                      xt + in.begin * panel);
  });

  const std::int64_t blocks = ceil_div(shape_.in * padded_batch(), kForwardBlockFloats);
  for_each_part([&](int part) {
    const Range out = share(shape_.out, part, threads_, kTileRows);
    if (out.empty()) return;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const Range in = share(shape_.in, static_cast<int>(block), static_cast<int>(blocks), 16);
      if (in.empty()) continue;
      loops_->block({.m = out.size(),
                     .n = padded_batch(),
                     .k = in.size(),
                     .a = args.w.data() + out.begin * shape_.in + in.begin,
                     .a_stride = shape_.in,
                     .b = xt + in.begin * panel,
                     .b_panel_stride = panel_stride,
                     .b_panel_columns = panel,
                     .c = yt + out.begin * padded_batch(),
                     .c_stride = padded_batch(),
                     .accumulate = in.begin > 0,
                     .rows_first = true});
    }
    loops_->store_transposed({.n = shape_.batch,
                              .o = out.size(),
                              .yt = yt + out.begin * padded_batch(),
                              .yt_stride = padded_batch(),
                              .bias = args.bias.empty() ? nullptr : args.bias.data() + out.begin,
                              .relu = args.relu,
                              .y = args.y.data() + out.begin,
                              .y_stride = shape_.out});
  });
}

// Strips of dx that fit L1 are summed over all rows of w, a few of which are in registers at a time.
void LinearGemm::skinny_backward_data(const LinearBackwardDataArgs& args, float* scratch) const {
  const std::int64_t tile = loops_->tile_columns;
  float* const packed_dy = scratch;
  for_each_part([&](int part) {
    const Range out = share(shape_.out, part, threads_, kTileRows);
    loops_->pack_columns(args.dy.data() + out.begin, shape_.out, shape_.batch, out.size(), kTileRows,
                         kTileRows * shape_.batch, packed_dy + out.begin * shape_.batch);
  });
  for_each_part([&](int part) {
    const Range in = share(shape_.in, part, threads_, tile);
    float* const strip = packed_dy + packed_dy_floats() + part * strip_columns() * shape_.batch;
    for (std::int64_t first = in.begin; first < in.end; first += strip_columns()) {
      const std::int64_t columns = std::min(strip_columns(), in.end - first);
      std::fill_n(strip, round_up(columns, tile) * shape_.batch, 0.0f);
      loops_->strip({.n = shape_.batch,
                     .rows = shape_.out,
                     .columns = columns,
                     .left = packed_dy,
                     .w = args.w.data() + first,
                     .w_stride = shape_.in,
                     .strip = strip});
      for (std::int64_t n = 0; n < shape_.batch; ++n) {
        for (std::int64_t i = 0; i < columns; i += tile) {
          std::copy_n(strip + i * shape_.batch + n * tile, std::min(tile, columns - i),
                      args.dx.data() + n * shape_.in + first + i);
        }
      }
    }
  });
}

// dw is written once, a few rows at a time over a block of columns whose x stays in L2.
void LinearGemm::skinny_backward_weights(const LinearBackwardWeightsArgs& args, float* scratch) const {
  const std::int64_t tile = loops_->tile_columns;
  const std::int64_t panel_stride = tile * shape_.batch;
  float* const packed_dy = scratch;
  float* const packed_x = packed_dy + packed_dy_floats();  // panels of columns, [N][tile]
  for_each_part([&](int part) {
    const Range out = share(shape_.out, part, threads_, kTileRows);
    loops_->pack_columns(args.dy.data() + out.begin, shape_.out, shape_.batch, out.size(), kTileRows,
                         kTileRows * shape_.batch, packed_dy + out.begin * shape_.batch);
    const Range in = share(shape_.in, part, threads_, tile);
    loops_->pack_columns(args.x.data() + in.begin, shape_.in, shape_.batch, in.size(), tile, panel_stride,
                         packed_x + in.begin * shape_.batch);
  });

  const std::int64_t block_columns = std::max(kWeightsBlockFloats / shape_.batch / tile, std::int64_t{1}) * tile;
  for_each_part([&](int part) {
    const Range out = share(shape_.out, part, threads_, kTileRows);
    for (std::int64_t first = 0; first < shape_.in && !out.empty(); first += block_columns) {
      loops_->block({.m = out.size(),
                     .n = std::min(block_columns, shape_.in - first),
                     .k = shape_.batch,
                     .a = packed_dy + out.begin * shape_.batch,
                     .a_stride = kTileRows * shape_.batch,
                     .a_packed = true,
                     .b = packed_x + first * shape_.batch,
                     .b_panel_stride = panel_stride,
                     .b_panel_columns = tile,
                     .c = args.dw.data() + out.begin * shape_.in + first,
                     .c_stride = shape_.in,
                     .accumulate = args.accumulate,
                     .rows_first = true});
    }
  });
}

}  // namespace trifold::cpu
