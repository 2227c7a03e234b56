// Activations into frequencies: V = B^T d B over 6x6 windows, four apart. A run of tiles in one row shares its columns:
// first every column of the run is transformed into a line buffer, then every tile takes its six columns from there.
#include "kernels/cpu/simd/winograd_passes.h"

namespace trifold::cpu::TRIFOLD_ISA {

namespace {

constexpr int kWindow = 6;
constexpr int kLineColumns = WinogradRuns::kLongestRun * kWinogradOutput + 2;

struct LineBuffer {
  alignas(64) Vec at[kWindow][kLineColumns];
};

inline void transform_six(Vec d0, Vec d1, Vec d2, Vec d3, Vec d4, Vec d5, Vec* v) {
  const Vec four = broadcast(4), minus_four = broadcast(-4), minus_five = broadcast(-5), two = broadcast(2);
  const Vec a = fma(minus_four, d2, d4), b = fma(minus_four, d1, d3);
  const Vec c = d4 - d2, e = (d3 - d1) * two;
  v[0] = fma(four, d0, fma(minus_five, d2, d4));
  v[1] = a + b;
  v[2] = a - b;
  v[3] = c + e;
  v[4] = c - e;
  v[5] = fma(four, d1, fma(minus_five, d3, d5));
}

// What a run reads of any channel block: six rows of the image, as far as they exist (others point to a row that does,
// and are masked out), and columns [begin, end) of those [left, right) that its tiles cover.
struct Window {
  std::int64_t row[kWindow];  // offset in floats
  IVec mask[kWindow];
  bool masked;
  int left, begin, end, right;

  Window(const WinogradInput& args, const WinogradRuns& run) {
    const WinogradImage& image = args.image;
    const int top = run.row * kWinogradOutput - args.pad_h;
    masked = top < 0 || top + kWindow > image.height;
    for (int i = 0; i < kWindow; ++i) {
      const bool exists = top + i >= 0 && top + i < image.height;
      row[i] = (exists ? top + i : 0) * std::int64_t{image.width} * kLanes;
      mask[i] = IVec{} - (exists ? 1 : 0);
    }
    left = run.column * kWinogradOutput - args.pad_w;
    right = left + run.length * kWinogradOutput + 2;
    begin = left < 0 ? 0 : left < image.width ? left : image.width;
    end = right < image.width ? right : image.width;
  }
};

template <bool kAffine, bool kMasked>
void transform_columns(const WinogradInput& args, const Window& window, std::int64_t block, const float* x,
                       const float* next, LineBuffer& line) {
  Vec scale = zero(), shift = zero(), floor = zero();
  if constexpr (kAffine) {
    scale = load(args.scale + block * kLanes);
    shift = load(args.shift + block * kLanes);
    if (!args.relu) floor = broadcast(-__builtin_inff());
  }
  for (int column = window.begin; column < window.end; ++column) {
    Vec d[kWindow], v[kWindow];
#pragma GCC unroll 6
    for (int i = 0; i < kWindow; ++i) {
      __builtin_prefetch(next + window.row[i] + static_cast<std::int64_t>(column) * kLanes);
      d[i] = load(x + window.row[i] + static_cast<std::int64_t>(column) * kLanes);
      if constexpr (kAffine) d[i] = max(floor, fma(d[i], scale, shift));
      if constexpr (kMasked) d[i] = keep(window.mask[i], d[i]);
    }
    transform_six(d[0], d[1], d[2], d[3], d[4], d[5], v);
#pragma GCC unroll 6
    for (int i = 0; i < kWindow; ++i) line.at[i][column - window.left] = v[i];
  }
}

template <bool kAffine>
void transform_runs(const WinogradInput& args) {
  LineBuffer line;
  const WinogradImage& image = args.image;
  const std::int64_t image_size = std::int64_t{image.height} * image.width * kLanes;
  const std::int64_t frequency_stride = args.planes.frequency_stride;
  for (WinogradRuns run(args.tiles); !run.done(); run.next()) {
    const Window window(args, run);
    for (int c = window.left; c < window.right; ++c) {
      if (c == window.begin && window.begin < window.end) c = window.end;
      if (c == window.right) break;
#pragma GCC unroll 6
      for (int i = 0; i < kWindow; ++i) line.at[i][c - window.left] = zero();
    }
    for (std::int64_t b = 0; b < image.block_count; ++b) {
      const std::int64_t block = image.first_block + b;
      const float* x = args.x + (run.sample * image.total_blocks + block) * image_size;
      // Read next: the same window of the next block, or after the last block that of the first, one row of tiles
      // lower.
      const float* next =
          b + 1 < image.block_count ? x + image_size : x - b * image_size + kWinogradOutput * image.width * kLanes;
      if (window.masked) {
        transform_columns<kAffine, true>(args, window, block, x, next, line);
      } else {
        transform_columns<kAffine, false>(args, window, block, x, next, line);
      }
      float* out = args.planes.data + b * args.planes.block_stride + run.offset * kLanes;
      for (int t = 0; t < run.length; ++t, out += kLanes) {
        float* row_out = out;
#pragma GCC unroll 6
        for (int i = 0; i < kWindow; ++i, row_out += kWindow * frequency_stride) {
          const Vec* d = &line.at[i][t * kWinogradOutput];
          Vec v[kWindow];
          transform_six(d[0], d[1], d[2], d[3], d[4], d[5], v);
#pragma GCC unroll 6
          for (int j = 0; j < kWindow; ++j) store(row_out + j * frequency_stride, v[j]);
        }
      }
    }
  }
}

}  // namespace

void winograd_transform_input(const WinogradInput& args) {
  if (args.scale) return transform_runs<true>(args);
  transform_runs<false>(args);
}

}  // namespace trifold::cpu::TRIFOLD_ISA
