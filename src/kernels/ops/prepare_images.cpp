#include "kernels/ops/prepare_images.h"

#include <fmt/format.h>

#include "kernels/ops/op_tensors.h"

namespace trifold {
namespace {

std::string text_of(const Augmentation& augmentation) {
  if (const auto* crop = std::get_if<RandomCrop>(&augmentation)) return fmt::format("crop pad {}", crop->padding_px);
  if (const auto* flip = std::get_if<HorizontalFlip>(&augmentation)) return fmt::format("flip p {}", flip->probability);
  return fmt::format("cutout {}", std::get<Cutout>(augmentation).side_px);
}

}  // namespace

std::vector<ChannelNumbers> PrepareImagesArgs::channel_numbers() const {
  std::vector<ChannelNumbers> numbers;
  for (std::size_t c = 0; c < mean.size(); ++c) numbers.push_back(byte_channel_numbers(mean[c], deviation[c]));
  return numbers;
}

void PrepareImages::check_shapes(const OpTensors& tensors) const {
  tensors.all_alike(1);
  tensors.type(tensors.in(0), DType::u8);
  tensors.type(tensors.out(0), DType::f32);
}

std::string PrepareImages::attributes() const {
  std::string text;
  for (const Augmentation& augmentation : args.augmentations) text += (text.empty() ? "" : " ") + text_of(augmentation);
  return text;
}

}  // namespace trifold
