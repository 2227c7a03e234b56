// Walks a sample row by row: a row is a run of consecutive floats in which a lane of every vector stays with one
// channel. The three layouts (blocked, plain, features) differ only here; a loop body is written once, as a lambda over
// (offset, part), where `part` loads and stores a whole vector or the end of a row. For *.isa.cpp files only.
#pragma once

#include "core/parallel.h"
#include "kernels/cpu/simd/channel_view.h"
#include "kernels/cpu/simd/vec.h"

#define TRIFOLD_INLINE __attribute__((always_inline))

namespace trifold::cpu::TRIFOLD_ISA {

struct WholeVector {
  Vec load(const float* p) const { return TRIFOLD_ISA::load(p); }
  void store(float* p, Vec v) const { TRIFOLD_ISA::store(p, v); }
  Vec valid(Vec v) const { return v; }
  IVec load_mask(const std::uint8_t* p) const {
    unsigned bits = 0;
    std::memcpy(&bits, p, kLanes / 8);
    return mask_of(bits);
  }
  void store_mask(std::uint8_t* p, IVec mask) const {
    const unsigned bits = bits_of(mask);
    std::memcpy(p, &bits, kLanes / 8);
  }
};

struct PartVector {
  int lanes;

  Vec load(const float* p) const { return load_partial(p, lanes); }
  void store(float* p, Vec v) const { store_partial(p, v, lanes); }
  Vec valid(Vec v) const { return keep(first_lanes(lanes), v); }  // for sums: drops what the other lanes hold
  IVec load_mask(const std::uint8_t* p) const {
    unsigned bits = p[0];
    if (lanes > 8) bits |= static_cast<unsigned>(p[1]) << 8;
    return mask_of(bits);
  }
  void store_mask(std::uint8_t* p, IVec mask) const {
    const unsigned bits = bits_of(mask & first_lanes(lanes));
    p[0] = static_cast<std::uint8_t>(bits);
    if (lanes > 8) p[1] = static_cast<std::uint8_t>(bits >> 8);
  }
};

struct Row {
  std::int64_t offset;       // of its first element in the sample
  std::int64_t vectors;      // whole ones
  int tail;                  // elements after them
  std::int64_t mask_offset;  // of its first byte in the sample's bit mask
};

// All lanes belong to one channel.
struct OneChannel {
  std::int64_t channel;

  Vec operator()(const float* per_channel) const { return broadcast(per_channel[channel]); }
  Vec leading(const float* row) const { return broadcast(row[0]); }  // the row's first value of each lane's channel
  void set(float* per_channel, Vec v) const { per_channel[channel] = v[0]; }
  void add(double* totals, Vec v) const { totals[channel] += sum_double(v); }
  void add(float* totals, Vec v) const { totals[channel] += sum(v); }
  void set(float* per_channel, float value) const { per_channel[channel] = value; }
};

// Lane i belongs to channel first + i.
struct ChannelPerLane {
  std::int64_t first;
  int lanes;

  Vec operator()(const float* per_channel) const {
    return lanes == kLanes ? load(per_channel + first) : load_partial(per_channel + first, lanes);
  }
  Vec leading(const float* row) const { return lanes == kLanes ? load(row) : load_partial(row, lanes); }
  void set(float* per_channel, Vec v) const {
    lanes == kLanes ? store(per_channel + first, v) : store_partial(per_channel + first, v, lanes);
  }
  void add(double* totals, Vec v) const {
    if (lanes == kLanes) return add_to(totals + first, v);
    for (int i = 0; i < lanes; ++i) totals[first + i] += v[i];
  }
  void add(float* totals, Vec v) const {
    for (int i = 0; i < lanes; ++i) totals[first + i] += v[i];
  }
  void set(float* per_channel, float value) const {
    for (int i = 0; i < lanes; ++i) per_channel[first + i] = value;
  }
};

// body(Row, channel), with `channel` one of the two above.
template <class Body>
TRIFOLD_INLINE inline void for_each_row(const ChannelView& view, Body body) {
  const std::int64_t channels = view.channels, pixels = view.pixels;
  if (view.blocked || pixels == 1) {
    std::int64_t c = 0;
    for (; c + kLanes <= channels; c += kLanes) {
      body(Row{c * pixels, pixels, 0, c * pixels / 8}, ChannelPerLane{c, kLanes});
    }
    const int rest = static_cast<int>(channels - c);
    if (rest > 0) body(Row{c, 0, rest, c / 8}, ChannelPerLane{c, rest});
    return;
  }
  const std::int64_t vectors = pixels / kLanes, plane_mask_bytes = (pixels + 7) / 8;
  const int tail = static_cast<int>(pixels % kLanes);
  for (std::int64_t c = 0; c < channels; ++c) {
    body(Row{c * pixels, vectors, tail, c * plane_mask_bytes}, OneChannel{c});
  }
}

// body(offset, part) over a run, from offset 0.
template <class Body>
TRIFOLD_INLINE inline void for_each_vector(std::int64_t vectors, int tail, Body body) {
  std::int64_t v = 0;
  for (; v + 4 <= vectors; v += 4) {
    body(v * kLanes, WholeVector{});
    body((v + 1) * kLanes, WholeVector{});
    body((v + 2) * kLanes, WholeVector{});
    body((v + 3) * kLanes, WholeVector{});
  }
  for (; v < vectors; ++v) body(v * kLanes, WholeVector{});
  if (tail > 0) body(v * kLanes, PartVector{tail});
}

// body(offset, part) over a range of elements, with the offset counted from its begin.
template <class Body>
TRIFOLD_INLINE inline void for_each_vector(const Range& range, Body body) {
  const std::int64_t count = range.end - range.begin;
  if (count > 0) for_each_vector(count / kLanes, static_cast<int>(count % kLanes), body);
}

// Up to three sums made in one pass.
struct Sums {
  Vec a{}, b{}, c{};

  void operator+=(const Sums& other) {
    a += other.a;
    b += other.b;
    c += other.c;
  }
};

// Float sums grow over at most this many vectors before they are added to doubles.
inline constexpr std::int64_t kVectorsPerFloatSum = 1024;

// body(offset, part, Sums&) over a run, with four independent accumulators; add(Sums) takes each partial result.
template <class Body, class Add>
TRIFOLD_INLINE inline void reduce_vectors(std::int64_t vectors, int tail, Body body, Add add) {
  std::int64_t v = 0;
  do {
    const std::int64_t end = v + kVectorsPerFloatSum < vectors ? v + kVectorsPerFloatSum : vectors;
    Sums s0, s1, s2, s3;
    for (; v + 4 <= end; v += 4) {
      body(v * kLanes, WholeVector{}, s0);
      body((v + 1) * kLanes, WholeVector{}, s1);
      body((v + 2) * kLanes, WholeVector{}, s2);
      body((v + 3) * kLanes, WholeVector{}, s3);
    }
    for (; v < end; ++v) body(v * kLanes, WholeVector{}, s0);
    if (v == vectors && tail > 0) body(v * kLanes, PartVector{tail}, s1);
    s0 += s1;
    s2 += s3;
    s0 += s2;
    add(s0);
  } while (v < vectors);
}

}  // namespace trifold::cpu::TRIFOLD_ISA
