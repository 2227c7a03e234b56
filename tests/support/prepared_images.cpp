#include "support/prepared_images.h"

#include <algorithm>
#include <ostream>

#include <gtest/gtest.h>

#include "runtime/data/augment.h"
#include "support/op_runner.h"

namespace trifold::test {
namespace {

constexpr ImageShape kShape{3, 9, 11};
constexpr std::int64_t kSamples = 6;
constexpr StepContext kStep{.seed = 13, .first_sample = 36};
const Normalisation kNormalisation{{0.4f, 0.5f, 0.6f}, {0.2f, 0.25f, 0.3f}};

HostTensor drawn_bytes() {
  HostTensor raw{.desc = {{kSamples, kShape.channels, kShape.height, kShape.width}, DType::u8}};
  raw.data.resize(raw.desc.bytes());
  RandomSequence random(3, Purpose::synthetic);
  for (std::uint8_t& pixel : raw.as<std::uint8_t>()) pixel = static_cast<std::uint8_t>(random.below(256));
  return raw;
}

std::vector<float> images_of_the_loader(HostTensor raw, const std::vector<Augmentation>& augmentations) {
  const Augmenter augmenter(kShape, PixelType::u8, kNormalisation, augmentations);
  const auto elements = static_cast<std::size_t>(kShape.elements());
  std::vector<std::uint8_t> scratch(elements);
  std::vector<float> images(raw.data.size());
  for (std::size_t n = 0; n < kSamples; ++n) {
    const std::span<std::uint8_t> pixels = raw.as<std::uint8_t>().subspan(n * elements, elements);
    RandomSequence random = augment_sequence(kStep.seed, kStep.first_sample + static_cast<std::int64_t>(n));
    augmenter.augment(pixels, scratch, random);
    augmenter.normalise(std::span<const std::uint8_t>(pixels), std::span(images).subspan(n * elements, elements));
  }
  return images;
}

}  // namespace

std::vector<PreparationCase> preparation_cases() {
  return {{"CropFlipCutout", {RandomCrop{2}, HorizontalFlip{0.5f}, Cutout{3}}},
          {"CutoutCrop", {Cutout{5}, RandomCrop{3}}},  // the order counts
          {"WideCrop", {RandomCrop{11}}},
          {"MoreNumbersThanABlock", {RandomCrop{1}, RandomCrop{2}, Cutout{4}, HorizontalFlip{0.3f}, Cutout{1}}},
          {"NormalisationOnly", {}}};
}

void expect_images_of_the_loader(const Backend& backend, Device& device, const PreparationCase& each) {
  const HostTensor raw = drawn_bytes();
  PrepareImages op;
  op.args = preparation_of(kShape, kNormalisation, each.augmentations);
  const std::vector<HostTensor> made = run_op({.backend = backend, .device = &device, .context = kStep}, op,
                                              std::vector{raw}, std::vector<OpOutput>{{.desc = {raw.desc.shape}}});
  const std::vector<float> expected = images_of_the_loader(raw, each.augmentations);
  EXPECT_TRUE(std::ranges::equal(made[0].as(), expected));
}

void PrintTo(const PreparationCase& each, std::ostream* os) {
  *os << each.name;
}

}  // namespace trifold::test
