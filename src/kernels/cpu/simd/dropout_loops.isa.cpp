// The loops of dropout_loops.h. One vector Philox makes 4 * kLanes numbers; blocked images and features use them all,
// unless they are a part that begins within a block of four.
#include "kernels/cpu/simd/dropout_loops.h"

#include "kernels/cpu/simd/channel_rows.h"
#include "kernels/cpu/simd/vec_philox.h"

namespace trifold::cpu::TRIFOLD_ISA {

extern const DropoutLoops dropout_loops_table;

namespace {

UVec lane_index() {
  UVec index;
  for (int i = 0; i < kLanes; ++i) index[i] = static_cast<std::uint32_t>(i);
  return index;
}

// The number of each lane, wherever in its block it is: a block a lane, of which one number is used.
UVec numbered(const RandomStream& random, UVec number) {
  const RandomWords r = random(number / 4u);
  const UVec word = number % 4u;
  return word < 2u ? (word == 0u ? r.word[0] : r.word[1]) : (word == 2u ? r.word[2] : r.word[3]);
}

enum class Rectify { none, relu, gate };

template <Rectify kRectify, class Part>
TRIFOLD_INLINE inline Vec rectified(Vec value, const float* gate, const Part& part) {
  if constexpr (kRectify == Rectify::relu) return max(zero(), value);
  if constexpr (kRectify == Rectify::gate) return keep(part.load(gate) > zero(), value);
  return value;
}

// One sample.
template <Rectify kRectify>
struct SampleDropout {
  RandomStream random;
  Vec probability, scale;
  std::uint32_t first_number;    // of the tensor's first element
  std::uint32_t whole_channels;  // numbers a pixel
  const float* from;
  float* to;
  const float* gate;

  SampleDropout(const ElementDropoutArgs& args, std::int64_t n)
      : random(args.stream.seed, Purpose::dropout, args.stream.layer,
               args.stream.first_sample + static_cast<std::uint64_t>(n)),
        probability(broadcast(args.stream.probability)),
        scale(broadcast(1.0f / (1.0f - args.stream.probability))),
        whole_channels(args.stream.whole_channels > 0 ? args.stream.whole_channels
                                                      : static_cast<std::uint32_t>(args.view.channels)),
        from(args.from + n * sample_elements(args.view)),
        to(args.to + n * sample_elements(args.view)),
        gate(args.gate == nullptr ? nullptr : args.gate + n * sample_elements(args.view)) {
    first_number = args.stream.first_pixel * whole_channels + args.stream.first_channel;
  }

  template <class Part>
  TRIFOLD_INLINE void drop(std::int64_t offset, UVec bits, const Part& part) const {
    const Vec kept = keep(uniform_from(bits) >= probability, part.load(from + offset) * scale);
    part.store(to + offset, rectified<kRectify>(kept, gate + offset, part));
  }

  void drop(std::int64_t offset, UVec bits, std::int64_t elements) const {
    if (elements >= kLanes) return drop(offset, bits, WholeVector{});
    if (elements > 0) drop(offset, bits, PartVector{static_cast<int>(elements)});
  }

  // Elements are numbered in the order they lie in.
  void features(std::int64_t channels) const {
    const UVec lanes = lane_index();
    if (first_number % 4 != 0) {
      for (std::int64_t e = 0; e < channels; e += kLanes)
        drop(e, numbered(random, lanes + (first_number + static_cast<std::uint32_t>(e))), channels - e);
      return;
    }
    for (std::int64_t e = 0; e < channels; e += 4 * kLanes) {
      const RandomWords r = in_order(random(lanes + (first_number + static_cast<std::uint32_t>(e)) / 4));
      for (int j = 0; j < 4; ++j) drop(e + j * kLanes, r.word[j], channels - e - j * kLanes);
    }
  }

  void blocked(const ChannelView& view) const {
    if (first_number % 4 == 0 && whole_channels % 4 == 0) return blocks_of_four_pixels(view);
    const UVec lanes = lane_index();
    for (std::int64_t c = 0; c < view.channels; c += kLanes)
      for (std::int64_t p = 0; p < view.pixels; ++p)
        drop(c * view.pixels + p * kLanes, numbered(random, lanes + number(c, p)), WholeVector{});
  }

  // A vector of channels needs the numbers of kLanes / 4 blocks: four pixels at a time fill the lanes.
  void blocks_of_four_pixels(const ChannelView& view) const {
    constexpr std::uint32_t kBlocksPerVector = kLanes / 4;
    const std::uint32_t blocks_per_pixel = whole_channels / 4;
    const UVec lanes = lane_index();
    const UVec lane_blocks = lanes / kBlocksPerVector * blocks_per_pixel + lanes % kBlocksPerVector;
    for (std::int64_t c = 0; c < view.channels; c += kLanes) {
      for (std::int64_t p = 0; p < view.pixels; p += 4) {
        const RandomWords r = in_order(random(lane_blocks + number(c, p) / 4));
        const std::int64_t offset = c * view.pixels + p * kLanes;
        for (int j = 0; j < 4; ++j) {
          if (p + j < view.pixels) drop(offset + j * kLanes, r.word[j], WholeVector{});
        }
      }
    }
  }

  // Neighbours are as many numbers apart as there are channels.
  void plain(const ChannelView& view) const {
    const UVec lanes = lane_index() * whole_channels;
    for (std::int64_t c = 0; c < view.channels; ++c)
      for (std::int64_t p = 0; p < view.pixels; p += kLanes)
        drop(c * view.pixels + p, numbered(random, lanes + number(c, p)), view.pixels - p);
  }

 private:
  std::uint32_t number(std::int64_t channel, std::int64_t pixel) const {
    return first_number + static_cast<std::uint32_t>(pixel) * whole_channels + static_cast<std::uint32_t>(channel);
  }
};

template <Rectify kRectify>
void dropout_as(const ElementDropoutArgs& args, Range samples) {
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const SampleDropout<kRectify> sample(args, n);
    if (args.view.pixels == 1) {
      sample.features(args.view.channels);
    } else if (args.view.blocked) {
      sample.blocked(args.view);
    } else {
      sample.plain(args.view);
    }
  }
}

void dropout(const ElementDropoutArgs& args, Range samples) {
  if (args.gate != nullptr) return dropout_as<Rectify::gate>(args, samples);
  if (args.relu) return dropout_as<Rectify::relu>(args, samples);
  dropout_as<Rectify::none>(args, samples);
}

void channel_factors(const ChannelFactorsArgs& args, Range samples) {
  const Vec probability = broadcast(args.stream.probability);
  const Vec scale = broadcast(1.0f / (1.0f - args.stream.probability));
  const UVec lanes = lane_index();
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const RandomStream random(args.stream.seed, Purpose::dropout, args.stream.layer,
                              args.stream.first_sample + static_cast<std::uint64_t>(n));
    float* factors = args.factors + n * args.channels;
    const auto put = [&](std::int64_t first, UVec bits) {
      const Vec factor = keep(uniform_from(bits) >= probability, scale);
      const std::int64_t rest = args.channels - first;
      if (rest >= kLanes) {
        store(factors + first, factor);
      } else if (rest > 0) {
        store_partial(factors + first, factor, static_cast<int>(rest));
      }
    };
    const std::uint32_t first_channel = args.stream.first_channel;
    if (first_channel % 4 != 0) {
      for (std::int64_t c = 0; c < args.channels; c += kLanes)
        put(c, numbered(random, lanes + (first_channel + static_cast<std::uint32_t>(c))));
      continue;
    }
    for (std::int64_t c = 0; c < args.channels; c += 4 * kLanes) {
      const RandomWords r = in_order(random(lanes + (first_channel + static_cast<std::uint32_t>(c)) / 4));
      for (int j = 0; j < 4; ++j) put(c + j * kLanes, r.word[j]);
    }
  }
}

template <Rectify kRectify>
void channel_dropout_as(const ChannelDropoutArgs& args, Range samples) {
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const std::int64_t start = n * sample_elements(args.view);
    for_each_row(args.view, [&](const Row& row, auto channel) TRIFOLD_INLINE {
      const float* from = args.from + start + row.offset;
      float* to = args.to + start + row.offset;
      const float* gate = kRectify == Rectify::gate ? args.gate + start + row.offset : nullptr;
      const Vec factor = channel(args.factors + n * args.view.channels);
      for_each_vector(row.vectors, row.tail, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
        part.store(to + i, rectified<kRectify>(part.load(from + i) * factor, gate + i, part));
      });
    });
  }
}

void channel_dropout(const ChannelDropoutArgs& args, Range samples) {
  if (args.gate != nullptr) return channel_dropout_as<Rectify::gate>(args, samples);
  if (args.relu) return channel_dropout_as<Rectify::relu>(args, samples);
  channel_dropout_as<Rectify::none>(args, samples);
}

}  // namespace

const DropoutLoops dropout_loops_table = {dropout, channel_factors, channel_dropout};

}  // namespace trifold::cpu::TRIFOLD_ISA
