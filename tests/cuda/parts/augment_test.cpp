// The GPU's augmentation gives the host's numbers to the bit.
#include "kernels/cuda/augment.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/data/augment.h"

namespace trifold::cuda {
namespace {

constexpr ImageShape kShape{3, 9, 11};
constexpr std::int64_t kSamples = 6;
constexpr std::int64_t kPerEpoch = 20;
constexpr StepContext kStep{.seed = 13, .first_sample = 36};  // the last four of epoch 1, then epoch 2
const Normalisation kNormalisation{{0.4f, 0.5f, 0.6f}, {0.2f, 0.25f, 0.3f}};

template <class Pixel>
std::vector<Pixel> raw_pixels() {
  RandomSequence random(3, Purpose::synthetic);
  std::vector<Pixel> pixels;
  for (std::int64_t i = 0; i < kSamples * kShape.elements(); ++i)
    pixels.push_back(static_cast<Pixel>(static_cast<float>(random.below(256)) / (sizeof(Pixel) == 1 ? 1.0f : 255.0f)));
  return pixels;
}

enum class Mode { training, evaluation };

template <class Pixel>
std::vector<float> on_host(std::vector<Pixel> raw, const std::vector<Augmentation>& augmentations, Mode mode) {
  const PixelType type = sizeof(Pixel) == 1 ? PixelType::u8 : PixelType::f32;
  const Augmenter augmenter(kShape, type, kNormalisation, augmentations);
  const auto elements = static_cast<std::size_t>(kShape.elements());
  std::vector<Pixel> scratch(elements);
  std::vector<float> images(raw.size());
  for (std::int64_t n = 0; n < kSamples; ++n) {
    const std::span<Pixel> pixels(raw.data() + static_cast<std::size_t>(n) * elements, elements);
    const std::int64_t place = kStep.first_sample + n;
    RandomSequence random = augment_sequence(kStep.seed, place / kPerEpoch, place % kPerEpoch);
    if (mode == Mode::training) augmenter.augment(pixels, scratch, random);
    augmenter.normalise(std::span<const Pixel>(pixels),
                        std::span<float>(images.data() + static_cast<std::size_t>(n) * elements, elements));
  }
  return images;
}

template <class Pixel>
std::vector<float> on_gpu(const std::vector<Pixel>& raw, const std::vector<DeviceAugmentation>& augmentations,
                          Mode mode) {
  CudaDevice device(0);
  const DeviceMemory pixels(device, raw.size() * sizeof(Pixel));
  const DeviceMemory images(device, raw.size() * sizeof(float));
  device.upload(pixels.data(), raw.data(), raw.size() * sizeof(Pixel));
  const DeviceAugmenter augmenter(device, {.channels = kShape.channels,
                                           .height = kShape.height,
                                           .width = kShape.width,
                                           .bytes = sizeof(Pixel) == 1,
                                           .mean = kNormalisation.mean,
                                           .std = kNormalisation.std,
                                           .augmentations = augmentations,
                                           .samples_per_epoch = kPerEpoch});
  device.set_step(kStep);
  float* out = reinterpret_cast<float*>(images.data());
  if (mode == Mode::training)
    augmenter.augment_and_normalise(pixels.data(), kSamples, out);
  else
    augmenter.normalise(pixels.data(), kSamples, out);
  std::vector<float> result(raw.size());
  device.download(result.data(), images.data(), raw.size() * sizeof(float));
  return result;
}

template <class Pixel>
void expect_equal(const std::vector<Augmentation>& host, const std::vector<DeviceAugmentation>& gpu, Mode mode) {
  const std::vector<Pixel> raw = raw_pixels<Pixel>();
  EXPECT_EQ(on_gpu(raw, gpu, mode), on_host(raw, host, mode));
}

using Kind = DeviceAugmentation::Kind;

TEST(DeviceAugmenter, CropsFlipsAndCutsBytesAsTheHostDoes) {
  expect_equal<std::uint8_t>({RandomCrop{2}, HorizontalFlip{0.5f}, Cutout{3}},
                             {{Kind::crop, 2, 0}, {Kind::flip, 0, 0.5f}, {Kind::cutout, 3, 0}}, Mode::training);
}

TEST(DeviceAugmenter, TheOrderCounts) {
  expect_equal<std::uint8_t>({Cutout{5}, RandomCrop{3}}, {{Kind::cutout, 5, 0}, {Kind::crop, 3, 0}}, Mode::training);
}

TEST(DeviceAugmenter, FloatsAreTakenAsTheyAre) {
  expect_equal<float>({HorizontalFlip{0.7f}, RandomCrop{1}}, {{Kind::flip, 0, 0.7f}, {Kind::crop, 1, 0}},
                      Mode::training);
}

TEST(DeviceAugmenter, EvaluationOnlyNormalises) {
  expect_equal<std::uint8_t>({RandomCrop{2}}, {{Kind::crop, 2, 0}}, Mode::evaluation);
}

}  // namespace
}  // namespace trifold::cuda
