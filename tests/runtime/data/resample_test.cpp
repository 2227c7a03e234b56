#include "runtime/data/resample.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

DecodedImage gray(int height, int width, std::vector<std::uint8_t> pixels) {
  return {.channels = 1, .height = height, .width = width, .pixels = std::move(pixels)};
}

Box whole(const DecodedImage& image) {
  return {.left = 0, .top = 0, .width = static_cast<double>(image.width), .height = static_cast<double>(image.height)};
}

std::vector<std::uint8_t> resampled(const DecodedImage& image, const Box& box, const ImageShape& shape) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(shape.elements()));
  resample(image, box, shape, out);
  return out;
}

TEST(Resample, TheSameSizeIsTheSamePicture) {
  const DecodedImage image = gray(2, 3, {1, 2, 3, 4, 5, 255});
  EXPECT_EQ(resampled(image, whole(image), {1, 2, 3}), image.pixels);
}

TEST(Resample, ColourBecomesPlanes) {
  const DecodedImage image{.channels = 3, .height = 1, .width = 2, .pixels = {10, 20, 30, 40, 50, 60}};
  EXPECT_EQ(resampled(image, whole(image), {3, 1, 2}), (std::vector<std::uint8_t>{10, 40, 20, 50, 30, 60}));
}

TEST(Resample, ShrinkingAverages) {
  // The triangle of a halving: weights 1, 3, 3, 1 of 8 inside, cut off (3, 3, 1 of 7) at the edge, as Pillow's.
  const DecodedImage image = gray(1, 4, {0, 80, 160, 240});
  EXPECT_EQ(resampled(image, whole(image), {1, 1, 2}), (std::vector<std::uint8_t>{57, 183}));
}

TEST(Resample, EnlargingIsBilinear) {
  const DecodedImage image = gray(1, 2, {0, 100});
  EXPECT_EQ(resampled(image, whole(image), {1, 1, 4}), (std::vector<std::uint8_t>{0, 25, 75, 100}));
}

TEST(Resample, ChangesBetweenGrayAndColour) {
  const DecodedImage one = gray(1, 1, {77});
  EXPECT_EQ(resampled(one, whole(one), {3, 1, 1}), (std::vector<std::uint8_t>{77, 77, 77}));
  const DecodedImage three{.channels = 3, .height = 1, .width = 1, .pixels = {100, 200, 50}};
  EXPECT_EQ(resampled(three, whole(three), {1, 1, 1}), std::vector<std::uint8_t>{153});  // 29.9 + 117.4 + 5.7
}

TEST(Resample, CentreBoxScalesTheShorterSide) {
  const DecodedImage image = gray(100, 300, {});
  // Shorter side to 50: scale 1/2, so a 40 x 40 crop is 80 x 80 of the picture.
  const Box box = centre_box(image, {1, 40, 40}, 50);
  EXPECT_DOUBLE_EQ(box.width, 80);
  EXPECT_DOUBLE_EQ(box.height, 80);
  EXPECT_DOUBLE_EQ(box.left, 110);
  EXPECT_DOUBLE_EQ(box.top, 10);
  const Box most = centre_box(image, {1, 40, 40}, 0);
  EXPECT_DOUBLE_EQ(most.width, 100);
  EXPECT_DOUBLE_EQ(most.top, 0);
}

TEST(Resample, RandomBoxesStayInsideAndVary) {
  const DecodedImage image = gray(37, 91, {});
  double least = 1;
  double most = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    RandomSequence random(1, Purpose::augment, 0, i);
    const Box box = random_box(image, {1, 8, 8}, 0.1f, random);
    EXPECT_GE(box.left, 0);
    EXPECT_GE(box.top, 0);
    EXPECT_LE(box.left + box.width, 91.0001);
    EXPECT_LE(box.top + box.height, 37.0001);
    least = std::min(least, box.width * box.height / (37 * 91));
    most = std::max(most, box.width * box.height / (37 * 91));
  }
  EXPECT_LT(least, 0.13);
  EXPECT_GT(least, 0.0999);
  EXPECT_GT(most, 0.4);
}

}  // namespace
}  // namespace trifold
