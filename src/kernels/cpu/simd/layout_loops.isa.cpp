// The loops of layout_loops.h: reorders are transposes of kLanes x kLanes tiles in registers.
#include "kernels/cpu/simd/layout_loops.h"

#include <utility>

#include "kernels/cpu/simd/channel_rows.h"

namespace trifold::cpu::TRIFOLD_ISA {

extern const LayoutLoops layout_loops_table;

namespace {

template <int... kLane>
using LaneList = std::integer_sequence<int, kLane...>;
using AllLanes = std::make_integer_sequence<int, kLanes>;

// Swaps the off-diagonal quarters of each 2x2 arrangement of kHalf x kHalf tiles that two rows kHalf apart belong to.
template <int kHalf, int... kLane>
TRIFOLD_INLINE inline void swap_quarters(Vec& a, Vec& b, LaneList<kLane...>) {
  const Vec upper = __builtin_shufflevector(a, b, ((kLane & kHalf) ? kLanes + kLane - kHalf : kLane)...);
  b = __builtin_shufflevector(a, b, ((kLane & kHalf) ? kLanes + kLane : kLane + kHalf)...);
  a = upper;
}

template <int kHalf>
TRIFOLD_INLINE inline void transpose_step(Vec (&tile)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kHalf) == 0) swap_quarters<kHalf>(tile[i], tile[i + kHalf], AllLanes{});
  }
}

TRIFOLD_INLINE inline void transpose(Vec (&tile)[kLanes]) {
  if constexpr (kLanes == 16) transpose_step<kLanes / 2>(tile);
  transpose_step<4>(tile);
  transpose_step<2>(tile);
  transpose_step<1>(tile);
}

// whole(plain, blocked) with the offsets of a full tile in the two layouts; part(plain, blocked, pixels) for the end of
// a plane. The tiles of a block follow one another, so that the blocked side is a stream.
template <class Whole, class Part>
TRIFOLD_INLINE inline void for_each_tile(const ReorderArgs& args, Range samples, Whole whole, Part part) {
  const std::int64_t pixels = args.pixels;
  const int tail = static_cast<int>(pixels % kLanes);
  for (std::int64_t plane = samples.begin * args.channels; plane < samples.end * args.channels; plane += kLanes) {
    const std::int64_t block = plane * pixels;
    std::int64_t p = 0;
    for (; p + kLanes <= pixels; p += kLanes) whole(block + p, block + p * kLanes);
    if (tail > 0) part(block + p, block + p * kLanes, tail);
  }
}

void copy(const float* from, float* to, std::int64_t count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

void to_blocked(const ReorderArgs& args, Range samples) {
  const std::int64_t pixels = args.pixels, sample = args.channels * pixels;
  if (pixels == 1) {
    return copy(args.from + samples.begin * sample, args.to + samples.begin * sample,
                (samples.end - samples.begin) * sample);
  }
  for_each_tile(
      args, samples,
      [&](std::int64_t plain, std::int64_t blocked) TRIFOLD_INLINE {
        Vec tile[kLanes];
#pragma GCC unroll 16
        for (int c = 0; c < kLanes; ++c) tile[c] = load(args.from + plain + c * pixels);
        transpose(tile);
#pragma GCC unroll 16
        for (int p = 0; p < kLanes; ++p) store(args.to + blocked + p * kLanes, tile[p]);
      },
      [&](std::int64_t plain, std::int64_t blocked, int tail) TRIFOLD_INLINE {
        Vec tile[kLanes];
        for (int c = 0; c < kLanes; ++c) tile[c] = load_partial(args.from + plain + c * pixels, tail);
        transpose(tile);
        for (int p = 0; p < tail; ++p) store(args.to + blocked + p * kLanes, tile[p]);
      });
}

void to_plain(const ReorderArgs& args, Range samples) {
  const std::int64_t pixels = args.pixels, sample = args.channels * pixels;
  if (pixels == 1) {
    return copy(args.from + samples.begin * sample, args.to + samples.begin * sample,
                (samples.end - samples.begin) * sample);
  }
  for_each_tile(
      args, samples,
      [&](std::int64_t plain, std::int64_t blocked) TRIFOLD_INLINE {
        Vec tile[kLanes];
#pragma GCC unroll 16
        for (int p = 0; p < kLanes; ++p) tile[p] = load(args.from + blocked + p * kLanes);
        transpose(tile);
#pragma GCC unroll 16
        for (int c = 0; c < kLanes; ++c) store(args.to + plain + c * pixels, tile[c]);
      },
      [&](std::int64_t plain, std::int64_t blocked, int tail) TRIFOLD_INLINE {
        Vec tile[kLanes];
        for (int p = 0; p < kLanes; ++p) tile[p] = p < tail ? load(args.from + blocked + p * kLanes) : zero();
        transpose(tile);
        for (int c = 0; c < kLanes; ++c) store_partial(args.to + plain + c * pixels, tile[c], tail);
      });
}

void copy_channels(const CopyChannelsArgs& args, Range samples) {
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    copy(args.from + (n * args.from_channels + args.first_from) * args.pixels,
         args.to + (n * args.to_channels + args.first_to) * args.pixels, args.channels * args.pixels);
  }
}

}  // namespace

const LayoutLoops layout_loops_table = {to_blocked, to_plain, copy_channels};

}  // namespace trifold::cpu::TRIFOLD_ISA
