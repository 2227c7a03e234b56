#include "runtime/data/augment.h"

#include <algorithm>
#include <cmath>

#include "runtime/core/error.h"

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

template <class Pixel>
void crop(const ImageShape& shape, int padding, std::span<Pixel> pixels, std::span<Pixel> scratch,
          RandomSequence& random) {
  const auto places = static_cast<std::uint32_t>(2 * padding + 1);
  const int down = static_cast<int>(random.below(places)) - padding;  // the window's offset on the image
  const int right = static_cast<int>(random.below(places)) - padding;
  if (down == 0 && right == 0) return;
  std::fill(scratch.begin(), scratch.end(), Pixel{0});
  const int first_row = std::max(0, -down);
  const int end_row = std::min(shape.height, shape.height - down);
  const int first_column = std::max(0, -right);
  const int end_column = std::min(shape.width, shape.width - right);
  if (first_column < end_column) {
    for (int channel = 0; channel < shape.channels; ++channel) {
      const std::int64_t plane = channel * shape.pixels();
      for (int row = first_row; row < end_row; ++row) {
        const std::int64_t to = plane + static_cast<std::int64_t>(row) * shape.width;
        const std::int64_t from = plane + static_cast<std::int64_t>(row + down) * shape.width + right;
        std::copy(pixels.data() + from + first_column, pixels.data() + from + end_column,
                  scratch.data() + to + first_column);
      }
    }
  }
  std::copy(scratch.begin(), scratch.end(), pixels.begin());
}

template <class Pixel>
void flip(const ImageShape& shape, float probability, std::span<Pixel> pixels, RandomSequence& random) {
  if (random.uniform() >= probability) return;
  const std::int64_t rows = static_cast<std::int64_t>(shape.channels) * shape.height;
  for (std::int64_t row = 0; row < rows; ++row) {
    Pixel* first = pixels.data() + row * shape.width;
    std::reverse(first, first + shape.width);
  }
}

template <class Pixel>
void cut_out(const ImageShape& shape, int side, std::span<const float> blank, std::span<Pixel> pixels,
             RandomSequence& random) {
  const int top = static_cast<int>(random.below(static_cast<std::uint32_t>(shape.height))) - side / 2;
  const int left = static_cast<int>(random.below(static_cast<std::uint32_t>(shape.width))) - side / 2;
  const int end_row = std::min(shape.height, top + side);
  const int end_column = std::min(shape.width, left + side);
  for (int channel = 0; channel < shape.channels; ++channel) {
    const auto value = static_cast<Pixel>(blank[static_cast<std::size_t>(channel)]);
    for (int row = std::max(0, top); row < end_row; ++row) {
      Pixel* line = pixels.data() + channel * shape.pixels() + static_cast<std::int64_t>(row) * shape.width;
      std::fill(line + std::max(0, left), line + end_column, value);
    }
  }
}

}  // namespace

Augmenter::Augmenter(const ImageShape& shape, PixelType type, const Normalisation& normalisation,
                     std::vector<Augmentation> augmentations)
    : shape_(shape), augmentations_(std::move(augmentations)) {
  const std::vector<float> mean = by_channel(normalisation.mean, shape.channels, 0.0f, "mean");
  const std::vector<float> deviation = by_channel(normalisation.std, shape.channels, 1.0f, "std");
  const float white = type == PixelType::u8 ? 255.0f : 1.0f;
  for (std::size_t channel = 0; channel < mean.size(); ++channel) {
    if (!(deviation[channel] > 0) || !std::isfinite(deviation[channel]) || !std::isfinite(mean[channel])) {
      fail_input("data.normalize: channel {} has mean {} and std {}; expected finite numbers and a std above 0",
                 channel, mean[channel], deviation[channel]);
    }
    scale_.push_back(1.0f / (white * deviation[channel]));
    shift_.push_back(-mean[channel] / deviation[channel]);
    blank_.push_back(type == PixelType::u8 ? std::clamp(std::round(255.0f * mean[channel]), 0.0f, 255.0f)
                                           : mean[channel]);
  }
  const int longest = std::max(shape.height, shape.width);
  for (const Augmentation& augmentation : augmentations_) {
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
}

template <class Pixel>
void Augmenter::augment_pixels(std::span<Pixel> pixels, std::span<Pixel> scratch, RandomSequence& random) const {
  TRIFOLD_CHECK(static_cast<std::int64_t>(pixels.size()) == shape_.elements() && scratch.size() == pixels.size(),
                "{} pixels and {} of scratch for images of {}", pixels.size(), scratch.size(), to_string(shape_));
  for (const Augmentation& augmentation : augmentations_) {
    std::visit(Overloaded{[&](const RandomCrop& a) { crop(shape_, a.padding_px, pixels, scratch, random); },
                          [&](const HorizontalFlip& a) { flip(shape_, a.probability, pixels, random); },
                          [&](const Cutout& a) { cut_out<Pixel>(shape_, a.side_px, blank_, pixels, random); }},
               augmentation);
  }
}

template <class Pixel>
void Augmenter::normalise_pixels(std::span<const Pixel> pixels, std::span<float> out) const {
  TRIFOLD_CHECK(static_cast<std::int64_t>(pixels.size()) == shape_.elements() && out.size() == pixels.size(),
                "{} pixels into {} for images of {}", pixels.size(), out.size(), to_string(shape_));
  const std::int64_t plane = shape_.pixels();
  for (int channel = 0; channel < shape_.channels; ++channel) {
    const float scale = scale_[static_cast<std::size_t>(channel)];
    const float shift = shift_[static_cast<std::size_t>(channel)];
    const Pixel* from = pixels.data() + channel * plane;
    float* to = out.data() + channel * plane;
    for (std::int64_t i = 0; i < plane; ++i) to[i] = static_cast<float>(from[i]) * scale + shift;
  }
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
