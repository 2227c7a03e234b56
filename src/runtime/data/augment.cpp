#include "runtime/data/augment.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "kernels/cpu/image_changes.h"

namespace trifold {

namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;  // clang needs the guide

// One value for every channel, or one for each.
std::vector<float> by_channel(const std::vector<float>& values, int channels, float missing, const char* what) {
  const auto count = static_cast<std::size_t>(channels);
  if (values.empty()) return std::vector<float>(count, missing);
  if (values.size() == 1) return std::vector<float>(count, values[0]);
  if (values.size() == count) return values;
  fail_input("data.normalize.{}: expected 1 value or {} (one a channel), found {}", what, count, values.size());
}

void check_augmentation(const ImageShape& shape, const Augmentation& augmentation) {
  const int longest = std::max(shape.height, shape.width);
  std::visit(Overloaded{[&](const RandomCrop& a) {
                          if (a.padding_px >= 0 && a.padding_px <= longest) return;
                          fail_input(
                              "data.augment: a crop padding of {} pixels does not suit images of {}; give 0 to {}",
                              a.padding_px, to_string(shape), longest);
                        },
                        [&](const HorizontalFlip& a) {
                          if (a.probability >= 0 && a.probability <= 1) return;
                          fail_input("data.augment: a flip probability of {} is not within 0..1", a.probability);
                        },
                        [&](const Cutout& a) {
                          if (a.side_px >= 1 && a.side_px <= longest) return;
                          fail_input("data.augment: a cutout of {} pixels does not suit images of {}; give 1 to {}",
                                     a.side_px, to_string(shape), longest);
                        }},
             augmentation);
}

}  // namespace

PrepareImagesArgs preparation_of(const ImageShape& shape, const Normalisation& normalisation,
                                 std::vector<Augmentation> augmentations) {
  PrepareImagesArgs args{.mean = by_channel(normalisation.mean, shape.channels, 0.0f, "mean"),
                         .deviation = by_channel(normalisation.std, shape.channels, 1.0f, "std"),
                         .augmentations = std::move(augmentations)};
  for (std::size_t channel = 0; channel < args.mean.size(); ++channel) {
    const float mean = args.mean[channel];
    const float deviation = args.deviation[channel];
    if (!(deviation > 0) || !std::isfinite(deviation) || !std::isfinite(mean)) {
      fail_input("data.normalize: channel {} has mean {} and std {}; expected finite numbers and a std above 0",
                 channel, mean, deviation);
    }
  }
  for (const Augmentation& augmentation : args.augmentations) check_augmentation(shape, augmentation);
  return args;
}

Augmenter::Augmenter(const ImageShape& shape, PixelType type, const Normalisation& normalisation,
                     std::vector<Augmentation> augmentations)
    : shape_(shape) {
  PrepareImagesArgs args = preparation_of(shape, normalisation, std::move(augmentations));
  const auto numbers_of = type == PixelType::u8 ? byte_channel_numbers : float_channel_numbers;
  for (std::size_t channel = 0; channel < args.mean.size(); ++channel)
    channels_.push_back(numbers_of(args.mean[channel], args.deviation[channel]));
  augmentations_ = std::move(args.augmentations);
}

template <class Pixel>
void Augmenter::augment_pixels(std::span<Pixel> pixels, std::span<Pixel> scratch, RandomSequence& random) const {
  TRIFOLD_CHECK(static_cast<std::int64_t>(pixels.size()) == shape_.elements() && scratch.size() == pixels.size(),
                "{} pixels and {} of scratch for images of {}", pixels.size(), scratch.size(), to_string(shape_));
  cpu::change_image<Pixel>(shape_, augmentations_, channels_, pixels, scratch, random);
}

template <class Pixel>
void Augmenter::normalise_pixels(std::span<const Pixel> pixels, std::span<float> out) const {
  TRIFOLD_CHECK(static_cast<std::int64_t>(pixels.size()) == shape_.elements() && out.size() == pixels.size(),
                "{} pixels into {} for images of {}", pixels.size(), out.size(), to_string(shape_));
  cpu::normalise_image<Pixel>(shape_, channels_, pixels, out);
}

void Augmenter::augment(std::span<std::uint8_t> pixels, std::span<std::uint8_t> scratch, RandomSequence& random) const {
  augment_pixels(pixels, scratch, random);
}

void Augmenter::augment(std::span<float> pixels, std::span<float> scratch, RandomSequence& random) const {
  augment_pixels(pixels, scratch, random);
}

void Augmenter::normalise(std::span<const std::uint8_t> pixels, std::span<float> out) const {
  normalise_pixels(pixels, out);
}

void Augmenter::normalise(std::span<const float> pixels, std::span<float> out) const {
  normalise_pixels(pixels, out);
}

}  // namespace trifold
