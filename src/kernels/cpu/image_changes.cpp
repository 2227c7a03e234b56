#include "kernels/cpu/image_changes.h"

#include <algorithm>

namespace trifold::cpu {
namespace {

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
void cut_out(const ImageShape& shape, int side, std::span<const ChannelNumbers> channels, std::span<Pixel> pixels,
             RandomSequence& random) {
  const int top = static_cast<int>(random.below(static_cast<std::uint32_t>(shape.height))) - side / 2;
  const int left = static_cast<int>(random.below(static_cast<std::uint32_t>(shape.width))) - side / 2;
  const int end_row = std::min(shape.height, top + side);
  const int end_column = std::min(shape.width, left + side);
  for (int channel = 0; channel < shape.channels; ++channel) {
    const auto value = static_cast<Pixel>(channels[static_cast<std::size_t>(channel)].blank);
    for (int row = std::max(0, top); row < end_row; ++row) {
      Pixel* line = pixels.data() + channel * shape.pixels() + static_cast<std::int64_t>(row) * shape.width;
      std::fill(line + std::max(0, left), line + end_column, value);
    }
  }
}

}  // namespace

template <class Pixel>
void change_image(const ImageShape& shape, std::span<const Augmentation> augmentations,
                  std::span<const ChannelNumbers> channels, std::span<Pixel> pixels, std::span<Pixel> scratch,
                  RandomSequence& random) {
  for (const Augmentation& augmentation : augmentations) {
    if (const auto* a = std::get_if<RandomCrop>(&augmentation))
      crop(shape, a->padding_px, pixels, scratch, random);
    else if (const auto* b = std::get_if<HorizontalFlip>(&augmentation))
      flip(shape, b->probability, pixels, random);
    else
      cut_out(shape, std::get<Cutout>(augmentation).side_px, channels, pixels, random);
  }
}

template <class Pixel>
void normalise_image(const ImageShape& shape, std::span<const ChannelNumbers> channels, std::span<const Pixel> pixels,
                     std::span<float> out) {
  const std::int64_t plane = shape.pixels();
  for (int channel = 0; channel < shape.channels; ++channel) {
    const float scale = channels[static_cast<std::size_t>(channel)].scale;
    const float shift = channels[static_cast<std::size_t>(channel)].shift;
    const Pixel* from = pixels.data() + channel * plane;
    float* to = out.data() + channel * plane;
    for (std::int64_t i = 0; i < plane; ++i) to[i] = static_cast<float>(from[i]) * scale + shift;
  }
}

template void change_image(const ImageShape&, std::span<const Augmentation>, std::span<const ChannelNumbers>,
                           std::span<std::uint8_t>, std::span<std::uint8_t>, RandomSequence&);
template void change_image(const ImageShape&, std::span<const Augmentation>, std::span<const ChannelNumbers>,
                           std::span<float>, std::span<float>, RandomSequence&);
template void normalise_image(const ImageShape&, std::span<const ChannelNumbers>, std::span<const std::uint8_t>,
                              std::span<float>);
template void normalise_image(const ImageShape&, std::span<const ChannelNumbers>, std::span<const float>,
                              std::span<float>);

}  // namespace trifold::cpu
