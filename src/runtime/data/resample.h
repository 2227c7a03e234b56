// A part of a decoded picture, scaled to the shape a network reads. The filter is a triangle as wide as the scale, so
// that shrinking averages (no aliasing) and enlarging is bilinear; what Pillow and torchvision do by default.
#pragma once

#include <cstdint>
#include <span>

#include "core/philox.h"
#include "runtime/data/dataset.h"
#include "runtime/data/image.h"

namespace trifold {

// A part of a picture, in its pixels; edges need not be whole.
struct Box {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

// The box that, once the shorter side is scaled to `shorter_px`, is the centre crop of `shape`. Where that would reach
// outside the picture (or `shorter_px` is 0), the largest centred box with the proportions of `shape`.
Box centre_box(const DecodedImage& image, const ImageShape& shape, int shorter_px);

// A box of a random share of the area (least_area..1) and random proportions (3:4 to 4:3), anywhere in the picture.
Box random_box(const DecodedImage& image, const ImageShape& shape, float least_area, RandomSequence& random);

// Scales `box` to `shape` into `out` ([C, H, W]), from gray to RGB or the other way where the channels ask for it.
void resample(const DecodedImage& image, const Box& box, const ImageShape& shape, std::span<std::uint8_t> out);

}  // namespace trifold
