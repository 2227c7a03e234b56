// From raw pixels to what a network reads. For training, a list of random changes applied in order; always, the
// normalisation. The changes work on raw pixels, as torchvision's do on the PIL image: padding is zero (black) in raw
// space and is normalised with the rest. Cutout fills with the mean, which is zero once normalised.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "runtime/core/philox.h"
#include "runtime/data/dataset.h"

namespace trifold {

// (x - mean) / std by channel, where x is byte / 255 for byte images and the number itself for float rows. One value
// serves all channels; none means mean 0 and std 1.
struct Normalisation {
  std::vector<float> mean{};
  std::vector<float> std{};
};

// A window of the image's own size, anywhere on the image padded by this many zero pixels on every side.
struct RandomCrop {
  int padding_px = 4;
};

struct HorizontalFlip {
  float probability = 0.5f;
};

// A square, centred anywhere on the image and clipped by its edges, is blanked.
struct Cutout {
  int side_px = 8;
};

using Augmentation = std::variant<RandomCrop, HorizontalFlip, Cutout>;

// Thread-safe: all its calls are const and the scratch is the caller's.
class Augmenter {
 public:
  // `type` says how `mean` relates to raw pixels. Checks every argument against `shape`.
  Augmenter(const ImageShape& shape, PixelType type, const Normalisation& normalisation,
            std::vector<Augmentation> augmentations);

  const ImageShape& shape() const { return shape_; }

  // Applies the list to `pixels` ([C, H, W]) in place, drawing from `random`; `scratch` is as long as `pixels`.
  void augment(std::span<std::uint8_t> pixels, std::span<std::uint8_t> scratch, RandomSequence& random) const;
  void augment(std::span<float> pixels, std::span<float> scratch, RandomSequence& random) const;

  // One multiply-add a pixel.
  void normalise(std::span<const std::uint8_t> pixels, std::span<float> out) const;
  void normalise(std::span<const float> pixels, std::span<float> out) const;

 private:
  template <class Pixel>
  void augment_pixels(std::span<Pixel> pixels, std::span<Pixel> scratch, RandomSequence& random) const;
  template <class Pixel>
  void normalise_pixels(std::span<const Pixel> pixels, std::span<float> out) const;

  ImageShape shape_;
  std::vector<Augmentation> augmentations_;
  std::vector<float> scale_;  // [C]
  std::vector<float> shift_;  // [C]
  std::vector<float> blank_;  // [C], the mean in raw pixels
};

// The numbers that augment one sample: the same on any rank and thread. `position` is the sample's place in the epoch,
// so that a sample drawn twice in an epoch is changed differently each time.
inline RandomSequence augment_sequence(std::uint64_t seed, std::int64_t epoch, std::int64_t position) {
  return {seed, Purpose::augment, static_cast<std::uint32_t>(epoch), static_cast<std::uint64_t>(position)};
}

}  // namespace trifold
