// What the loader does to an image when the program does not do it itself (kernels/ops/prepare_images.h says what that
// is): random changes of the raw pixels, and the normalisation.
#pragma once

#include <span>
#include <vector>

#include "kernels/ops/prepare_images.h"
#include "runtime/data/dataset.h"

namespace trifold {

// (x - mean) / std by channel, where x is byte / 255 for byte images and the number itself for float rows. One value
// serves all channels; none means mean 0 and std 1.
struct Normalisation {
  std::vector<float> mean{};
  std::vector<float> std{};

  bool operator==(const Normalisation&) const = default;
};

// What a job asks for, spelled out by channel and checked against the images. Errors name the job's fields.
PrepareImagesArgs preparation_of(const ImageShape& shape, const Normalisation& normalisation,
                                 std::vector<Augmentation> augmentations);

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
  std::vector<ChannelNumbers> channels_;
};

}  // namespace trifold
