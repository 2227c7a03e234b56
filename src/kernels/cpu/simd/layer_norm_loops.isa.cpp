// The loops of layer_norm_loops.h. Places are done a few at a time, whose channels are read two or three times while
// they are in the cache. Lanes are neighbouring places of a plain image, and neighbouring channels of one place in
// blocked images and in features: the arithmetic is written once for both.
#include "kernels/cpu/simd/layer_norm_loops.h"

#include <utility>

#include "kernels/cpu/simd/channel_rows.h"

namespace trifold::cpu::TRIFOLD_ISA {

extern const LayerNormLoops layer_norm_loops_table;

namespace {

constexpr int kAtOnce = 4;                // vectors of places, or places: their sums are made side by side
constexpr std::int64_t kStepsOfSum = 32;  // that one float sum grows over: sums of sums lose fewer digits

template <int kStep, int... kLane>
TRIFOLD_INLINE inline Vec add_lanes_apart(Vec v, std::integer_sequence<int, kLane...>) {
  return v + __builtin_shufflevector(v, v, (kLane ^ kStep)...);
}

template <int kStep = kLanes / 2>
TRIFOLD_INLINE inline Vec sum_in_every_lane(Vec v) {
  v = add_lanes_apart<kStep>(v, std::make_integer_sequence<int, kLanes>());
  if constexpr (kStep > 1) v = sum_in_every_lane<kStep / 2>(v);
  return v;
}

// Places of one sample of a plain image, from number `place` on; element `offset` is the first one's first channel.
template <int kVectors, class Part>
struct PlacesInLanes {
  static constexpr int kCount = kVectors;
  const ChannelView& view;
  std::int64_t place;
  std::int64_t offset;
  Part part;

  // One channel of all of them.
  struct Step {
    const PlacesInLanes& places;
    std::int64_t channel;

    std::int64_t at(int k) const { return places.offset + channel * places.view.pixels + k * kLanes; }
    Vec load(const float* tensor, int k) const { return places.part.load(tensor + at(k)); }
    void store(float* tensor, int k, Vec v) const { places.part.store(tensor + at(k), v); }
    Vec of_channel(const float* per_channel) const { return broadcast(per_channel[channel]); }
    Vec valid(Vec v) const { return v; }
  };

  Vec first_channel(const float* tensor, int k) const { return part.load(tensor + offset + k * kLanes); }
  Vec load(const float* per_place, int k) const { return part.load(per_place + place + k * kLanes); }
  void store(float* per_place, int k, Vec v) const { part.store(per_place + place + k * kLanes, v); }
  Vec over_channels(Vec sum) const { return sum; }

  std::int64_t whole_steps() const { return view.channels; }
  template <class Body>
  TRIFOLD_INLINE void step(std::int64_t index, Body& body) const {
    body(Step{*this, index});
  }
  template <class Body>
  TRIFOLD_INLINE void last_step(Body&) const {}
};

// Places of blocked images or of features, from number `place` on.
template <int kPlaces>
struct ChannelsInLanes {
  static constexpr int kCount = kPlaces;
  const ChannelView& view;
  std::int64_t place;
  std::int64_t offset[kPlaces];  // of each one's first channel

  ChannelsInLanes(const ChannelView& of, std::int64_t first) : view(of), place(first) {
    for (int k = 0; k < kPlaces; ++k)
      offset[k] = (first + k) / view.pixels * sample_elements(view) + (first + k) % view.pixels * kLanes;
  }

  // Neighbouring channels of all of them.
  template <class Part>
  struct Step {
    const ChannelsInLanes& places;
    std::int64_t channel;
    Part part;

    std::int64_t at(int k) const { return places.offset[k] + channel * places.view.pixels; }
    Vec load(const float* tensor, int k) const { return part.load(tensor + at(k)); }
    void store(float* tensor, int k, Vec v) const { part.store(tensor + at(k), v); }
    Vec of_channel(const float* per_channel) const { return part.load(per_channel + channel); }
    Vec valid(Vec v) const { return part.valid(v); }
  };

  Vec first_channel(const float* tensor, int k) const { return broadcast(tensor[offset[k]]); }
  Vec load(const float* per_place, int k) const { return broadcast(per_place[place + k]); }
  void store(float* per_place, int k, Vec v) const { per_place[place + k] = v[0]; }
  Vec over_channels(Vec sum) const { return sum_in_every_lane(sum); }

  std::int64_t whole_steps() const { return view.channels / kLanes; }
  template <class Body>
  TRIFOLD_INLINE void step(std::int64_t index, Body& body) const {
    body(Step<WholeVector>{*this, index * kLanes, {}});
  }
  template <class Body>
  TRIFOLD_INLINE void last_step(Body& body) const {
    const std::int64_t done = whole_steps() * kLanes;
    if (done < view.channels) body(Step<PartVector>{*this, done, {static_cast<int>(view.channels - done)}});
  }
};

template <class Places, class Body>
TRIFOLD_INLINE inline void for_each_step(const Places& places, Body body) {
  for (std::int64_t i = 0; i < places.whole_steps(); ++i) places.step(i, body);
  places.last_step(body);
}

// kSums sums over the channels of each place; body(step, sums) adds the step's terms.
template <int kSums, class Places>
struct ChannelSums {
  Vec sums[kSums][Places::kCount] = {};

  template <class Body>
  TRIFOLD_INLINE ChannelSums(const Places& places, Body body) {
    const std::int64_t steps = places.whole_steps();
    for (std::int64_t begin = 0; begin < steps; begin += kStepsOfSum) {
      const std::int64_t end = begin + kStepsOfSum < steps ? begin + kStepsOfSum : steps;
      Vec part[kSums][Places::kCount] = {};
      const auto add_to_part = [&](const auto& step) TRIFOLD_INLINE { body(step, part); };
      for (std::int64_t i = begin; i < end; ++i) places.step(i, add_to_part);
      for (int s = 0; s < kSums; ++s)
        for (int k = 0; k < Places::kCount; ++k) sums[s][k] += part[s][k];
    }
    const auto add_to_sums = [&](const auto& step) TRIFOLD_INLINE { body(step, sums); };
    places.last_step(add_to_sums);
    for (int s = 0; s < kSums; ++s)
      for (int k = 0; k < Places::kCount; ++k) sums[s][k] = places.over_channels(sums[s][k]);
  }
};

// All arithmetic is on distances from the place's first channel: x - mean would have few digits left where the mean is
// large against the deviation, and a mean that is rounded to float is off by more than that.
template <class Places>
TRIFOLD_INLINE inline void forward_of(const LayerNormForwardArgs& args, const Places& places) {
  constexpr int kCount = Places::kCount;
  const Vec channels = broadcast(static_cast<float>(args.view.channels));
  Vec center[kCount], shift[kCount], istd[kCount];
  for (int k = 0; k < kCount; ++k) center[k] = places.first_channel(args.x, k);
  const ChannelSums<1, Places> distances(places, [&](const auto& step, auto& sums) TRIFOLD_INLINE {
    for (int k = 0; k < kCount; ++k) sums[0][k] += step.valid(step.load(args.x, k) - center[k]);
  });
  for (int k = 0; k < kCount; ++k) shift[k] = distances.sums[0][k] / channels;
  const ChannelSums<2, Places> moments(places, [&](const auto& step, auto& sums) TRIFOLD_INLINE {
    for (int k = 0; k < kCount; ++k) {
      const Vec from_mean = step.valid(step.load(args.x, k) - center[k] - shift[k]);
      sums[0][k] += from_mean;
      sums[1][k] = fma(from_mean, from_mean, sums[1][k]);
    }
  });
  for (int k = 0; k < kCount; ++k) {
    shift[k] += moments.sums[0][k] / channels;  // what the first sum lost to rounding
    istd[k] = broadcast(1) / square_root(moments.sums[1][k] / channels + broadcast(args.eps));
  }
  for_each_step(places, [&](const auto& step) TRIFOLD_INLINE {
    const Vec weight = step.of_channel(args.weight), bias = step.of_channel(args.bias);
    for (int k = 0; k < kCount; ++k)
      step.store(args.y, k, fma((step.load(args.x, k) - center[k] - shift[k]) * istd[k], weight, bias));
  });
  if (args.mean == nullptr) return;
  for (int k = 0; k < kCount; ++k) {
    places.store(args.mean, k, center[k] + shift[k]);
    places.store(args.istd, k, istd[k]);
  }
}

template <class Places>
TRIFOLD_INLINE inline void backward_input_of(const LayerNormBackwardInputArgs& args, const Places& places) {
  constexpr int kCount = Places::kCount;
  const Vec channels = broadcast(static_cast<float>(args.view.channels));
  Vec mean[kCount], mean_g[kCount], slope[kCount], scale[kCount];
  for (int k = 0; k < kCount; ++k) mean[k] = places.load(args.mean, k);
  // Lanes that are not there are 0 in dy and so in every term.
  const ChannelSums<2, Places> of(places, [&](const auto& step, auto& sums) TRIFOLD_INLINE {
    const Vec weight = step.of_channel(args.weight);
    for (int k = 0; k < kCount; ++k) {
      const Vec g = step.load(args.dy, k) * weight;
      sums[0][k] += g;
      sums[1][k] = fma(g, step.load(args.x, k) - mean[k], sums[1][k]);
    }
  });
  for (int k = 0; k < kCount; ++k) {
    mean_g[k] = of.sums[0][k] / channels;
    const Vec istd = places.load(args.istd, k);
    slope[k] = of.sums[1][k] / channels * istd * istd;
    scale[k] = args.view.channels > 1 ? istd : zero();  // of one channel y is the bias, and rounding no gradient
  }
  for_each_step(places, [&](const auto& step) TRIFOLD_INLINE {
    const Vec weight = step.of_channel(args.weight);
    for (int k = 0; k < kCount; ++k) {
      const Vec g = step.load(args.dy, k) * weight;
      step.store(args.dx, k, scale[k] * ((g - mean_g[k]) - (step.load(args.x, k) - mean[k]) * slope[k]));
    }
  });
}

// body(places) for all places of the range, in groups.
template <class Body>
TRIFOLD_INLINE inline void for_each_group(const ChannelView& view, Range places, Body body) {
  if (view.blocked || view.pixels == 1) {
    std::int64_t i = places.begin;
    for (; i + kAtOnce <= places.end; i += kAtOnce) body(ChannelsInLanes<kAtOnce>(view, i));
    for (; i < places.end; ++i) body(ChannelsInLanes<1>(view, i));
    return;
  }
  for (std::int64_t i = places.begin; i < places.end;) {
    const std::int64_t n = i / view.pixels, end_of_sample = (n + 1) * view.pixels;
    const std::int64_t end = end_of_sample < places.end ? end_of_sample : places.end;
    const std::int64_t offset = n * sample_elements(view) - n * view.pixels;  // of a place's first channel, from it
    for (; i + kAtOnce * kLanes <= end; i += kAtOnce * kLanes)
      body(PlacesInLanes<kAtOnce, WholeVector>{view, i, offset + i, {}});
    for (; i + kLanes <= end; i += kLanes) body(PlacesInLanes<1, WholeVector>{view, i, offset + i, {}});
    if (i < end) body(PlacesInLanes<1, PartVector>{view, i, offset + i, {static_cast<int>(end - i)}});
    i = end;
  }
}

void forward(const LayerNormForwardArgs& args, Range places) {
  for_each_group(args.view, places, [&](const auto& group) TRIFOLD_INLINE { forward_of(args, group); });
}

void backward_input(const LayerNormBackwardInputArgs& args, Range places) {
  for_each_group(args.view, places, [&](const auto& group) TRIFOLD_INLINE { backward_input_of(args, group); });
}

// A statistic of the places that a vector of a row has, `i` elements after the row's begin.
template <class Part>
TRIFOLD_INLINE inline Vec of_places(const OneChannel&, const float* per_place, std::int64_t i, const Part& part) {
  return part.load(per_place + i);
}
template <class Part>
TRIFOLD_INLINE inline Vec of_places(const ChannelPerLane&, const float* per_place, std::int64_t i, const Part&) {
  return broadcast(per_place[i / kLanes]);
}

void backward_parameters(const LayerNormBackwardParametersArgs& args, Range samples) {
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const float* mean = args.mean + n * args.view.pixels;
    const float* istd = args.istd + n * args.view.pixels;
    for_each_row(args.view, [&](const Row& row, auto channel) TRIFOLD_INLINE {
      const std::int64_t offset = n * sample_elements(args.view) + row.offset;
      reduce_vectors(
          row.vectors, row.tail,
          [&](std::int64_t i, auto part, Sums& sums) TRIFOLD_INLINE {
            // The other lanes of a part are 0 in dy and so in every product.
            const Vec dy = part.load(args.dy + offset + i);
            const Vec from_mean = part.load(args.x + offset + i) - of_places(channel, mean, i, part);
            sums.a = fma(dy, from_mean * of_places(channel, istd, i, part), sums.a);
            sums.b += dy;
          },
          [&](const Sums& sums) TRIFOLD_INLINE {
            channel.add(args.dweight, sums.a);
            channel.add(args.dbias, sums.b);
          });
    });
  }
}

}  // namespace

const LayerNormLoops layer_norm_loops_table = {forward, backward_input, backward_parameters};

}  // namespace trifold::cpu::TRIFOLD_ISA
