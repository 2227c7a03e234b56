// From raw pixels to what a network reads: for training, random changes applied in order; always, the normalisation.
// The changes work on raw pixels, as torchvision's do on the PIL image: padding is zero (black) in raw space and is
// normalised with the rest. Cutout fills with the mean, which is zero once normalised. The loader does this on the host
// (runtime/data/augment.h), or a program does it with the op below; both give the same bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "core/philox.h"
#include "kernels/op.h"

namespace trifold {

// A window of the image's own size, anywhere on the image padded by this many zero pixels on every side.
struct RandomCrop {
  int padding_px = 4;
  bool operator==(const RandomCrop&) const = default;
};

struct HorizontalFlip {
  float probability = 0.5f;
  bool operator==(const HorizontalFlip&) const = default;
};

// A square, centred anywhere on the image and clipped by its edges, is blanked.
struct Cutout {
  int side_px = 8;
  bool operator==(const Cutout&) const = default;
};

using Augmentation = std::variant<RandomCrop, HorizontalFlip, Cutout>;

// The numbers that change one sample, the same on any rank, thread and device. `place` is the sample's in the whole
// stream of training samples, so that a sample is changed differently each time it comes.
inline RandomSequence augment_sequence(std::uint64_t seed, std::int64_t place) {
  return {seed, Purpose::augment, 0, static_cast<std::uint64_t>(place)};
}

// An image is raw * scale + shift, with two roundings. (No defaults: a GPU keeps it in shared memory.)
struct ChannelNumbers {
  float scale;
  float shift;
  float blank;  // what cutout leaves, as a raw pixel
};

// Of bytes, which are scaled to 0..1 first.
inline ChannelNumbers byte_channel_numbers(float mean, float deviation) {
  return {.scale = 1.0f / (255.0f * deviation),
          .shift = -mean / deviation,
          .blank = std::clamp(std::round(255.0f * mean), 0.0f, 255.0f)};
}

// Of numbers that are taken as they are.
inline ChannelNumbers float_channel_numbers(float mean, float deviation) {
  return {.scale = 1.0f / deviation, .shift = -mean / deviation, .blank = mean};
}

inline constexpr std::size_t kMostAugmentations = 8;  // of one op

struct PrepareImagesArgs {
  std::vector<float> mean{};                  // [C], of pixels from 0 to 1
  std::vector<float> deviation{};             // [C]
  std::vector<Augmentation> augmentations{};  // in order, at most kMostAugmentations; none: normalises only

  std::vector<ChannelNumbers> channel_numbers() const;  // [C]
};

// in: raw u8 [N,C,H,W]; out: images f32 [N,C,H,W]. Sample n is the step's first sample plus n.
struct PrepareImages final : Op {
  PrepareImagesArgs args;

  std::string_view name() const override { return "prepare_images"; }
  OpKind kind() const override { return OpKind::element_wise; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override;
  bool keeps_f32(Side, int) const override { return true; }
};

}  // namespace trifold
