// One raw image [C, H, W], changed at random and normalised on the host: what the loader's threads and the CPU kernel
// of prepare_images have in common. Pixel is std::uint8_t or float.
#pragma once

#include <span>

#include "core/image_shape.h"
#include "kernels/ops/prepare_images.h"

namespace trifold::cpu {

// Applies the list to `pixels` in place, drawing from `random`; `scratch` is as long as `pixels`.
template <class Pixel>
void change_image(const ImageShape& shape, std::span<const Augmentation> augmentations,
                  std::span<const ChannelNumbers> channels, std::span<Pixel> pixels, std::span<Pixel> scratch,
                  RandomSequence& random);

template <class Pixel>
void normalise_image(const ImageShape& shape, std::span<const ChannelNumbers> channels, std::span<const Pixel> pixels,
                     std::span<float> out);

}  // namespace trifold::cpu
