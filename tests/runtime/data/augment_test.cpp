#include "runtime/data/augment.h"

#include <numeric>
#include <set>

#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::input_error;

std::vector<std::uint8_t> ramp(const ImageShape& shape) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(shape.elements()));
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{1});
  return pixels;
}

std::vector<std::uint8_t> augmented(const Augmenter& augmenter, std::int64_t place) {
  std::vector<std::uint8_t> pixels = ramp(augmenter.shape());
  std::vector<std::uint8_t> scratch(pixels.size());
  RandomSequence random = augment_sequence(3, place);
  augmenter.augment(std::span(pixels), std::span(scratch), random);
  return pixels;
}

TEST(Augment, NormalisesBytesByChannel) {
  const Augmenter augmenter({2, 1, 2}, PixelType::u8, {.mean = {0.5f, 0.2f}, .std = {0.5f, 0.1f}}, {});
  const std::vector<std::uint8_t> pixels{0, 255, 51, 0};
  std::vector<float> out(4);
  augmenter.normalise(std::span<const std::uint8_t>(pixels), out);
  EXPECT_NEAR(out[0], -1, 1e-6);
  EXPECT_NEAR(out[1], 1, 1e-6);
  EXPECT_NEAR(out[2], 0, 1e-6);
  EXPECT_NEAR(out[3], -2, 1e-6);
}

TEST(Augment, NormalisesNumbersAsTheyAre) {
  const Augmenter augmenter({1, 1, 2}, PixelType::f32, {.mean = {10}, .std = {4}}, {});
  const std::vector<float> values{10, 18};
  std::vector<float> out(2);
  augmenter.normalise(std::span<const float>(values), out);
  EXPECT_EQ(out, (std::vector<float>{0, 2}));
}

TEST(Augment, WithoutAListNothingChanges) {
  const Augmenter augmenter({3, 4, 4}, PixelType::u8, {}, {});
  EXPECT_EQ(augmented(augmenter, 0), ramp({3, 4, 4}));
}

TEST(Augment, FlipMirrorsEveryRow) {
  const Augmenter always({2, 1, 3}, PixelType::u8, {}, {HorizontalFlip{1.0f}});
  EXPECT_EQ(augmented(always, 0), (std::vector<std::uint8_t>{3, 2, 1, 6, 5, 4}));
  const Augmenter half({2, 1, 3}, PixelType::u8, {}, {HorizontalFlip{}});
  int flipped = 0;
  for (int i = 0; i < 1000; ++i) flipped += augmented(half, i)[0] == 3 ? 1 : 0;
  EXPECT_NEAR(flipped, 500, 60);
}

TEST(Augment, CropIsAWindowOnThePaddedImage) {
  const ImageShape shape{2, 5, 7};
  const Augmenter augmenter(shape, PixelType::u8, {}, {RandomCrop{2}});
  const std::vector<std::uint8_t> whole = ramp(shape);
  std::set<std::pair<int, int>> seen;
  for (int sample = 0; sample < 400; ++sample) {
    const std::vector<std::uint8_t> found = augmented(augmenter, sample);
    int matches = 0;
    for (int down = -2; down <= 2; ++down) {
      for (int right = -2; right <= 2; ++right) {
        std::vector<std::uint8_t> expected;
        for (int c = 0; c < 2; ++c) {
          for (int y = down; y < 5 + down; ++y) {
            for (int x = right; x < 7 + right; ++x) {
              const bool inside = y >= 0 && y < 5 && x >= 0 && x < 7;
              expected.push_back(inside ? whole[static_cast<std::size_t>((c * 5 + y) * 7 + x)] : std::uint8_t{0});
            }
          }
        }
        if (expected != found) continue;
        ++matches;
        seen.insert({down, right});
      }
    }
    ASSERT_EQ(matches, 1) << "sample " << sample;
  }
  EXPECT_EQ(seen.size(), 25u);  // every window comes up
}

TEST(Augment, PaddingWiderThanTheImageIsSafe) {
  const Augmenter augmenter({1, 2, 9}, PixelType::u8, {}, {RandomCrop{9}});
  for (int sample = 0; sample < 500; ++sample) augmented(augmenter, sample);
}

TEST(Augment, CutoutBlanksASquareWithTheMean) {
  const ImageShape shape{2, 9, 9};
  const Augmenter augmenter(shape, PixelType::u8, {.mean = {0.0f, 1.0f}, .std = {1}}, {Cutout{3}});
  const std::vector<std::uint8_t> whole = ramp(shape);
  std::set<int> sizes;
  for (int sample = 0; sample < 300; ++sample) {
    const std::vector<std::uint8_t> found = augmented(augmenter, sample);
    int blanked = 0;
    for (std::size_t i = 0; i < 81; ++i) {
      const bool blank = found[i] == 0;
      blanked += blank ? 1 : 0;
      EXPECT_EQ(found[81 + i], blank ? 255 : whole[81 + i]);
      EXPECT_EQ(found[i], blank ? 0 : whole[i]);
    }
    sizes.insert(blanked);
  }
  EXPECT_EQ(sizes, (std::set<int>{4, 6, 9}));  // whole, and clipped by one or two edges
}

TEST(Augment, DependsOnSeedAndPlaceInTheStreamAlone) {
  const Augmenter augmenter({1, 16, 16}, PixelType::u8, {}, {RandomCrop{4}, HorizontalFlip{}, Cutout{5}});
  EXPECT_EQ(augmented(augmenter, 9), augmented(augmenter, 9));
  EXPECT_NE(augmented(augmenter, 9), augmented(augmenter, 10));
  EXPECT_NE(augmented(augmenter, 9), augmented(augmenter, 9 + (std::int64_t{1} << 32)));
}

TEST(Augment, RefusesWhatMakesNoSense) {
  const auto make = [](Normalisation normalisation, std::vector<Augmentation> list) {
    return input_error([&] { Augmenter({3, 8, 8}, PixelType::u8, normalisation, list); });
  };
  EXPECT_SAYS(make({.mean = {0, 0}, .std = {}}, {}), "1 value or 3");
  EXPECT_SAYS(make({.mean = {}, .std = {0}}, {}), "std above 0");
  EXPECT_SAYS(make({}, {RandomCrop{-1}}), "padding of -1");
  EXPECT_SAYS(make({}, {Cutout{9}}), "cutout of 9");
  EXPECT_SAYS(make({}, {HorizontalFlip{1.5f}}), "1.5");
}

}  // namespace
}  // namespace trifold
