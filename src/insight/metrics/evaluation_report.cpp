#include "insight/metrics/evaluation_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base64.h"
#include "runtime/data/image.h"

namespace trifold {
namespace {

std::vector<std::uint8_t> bytes_of(const Dataset& dataset, std::int64_t index) {
  const auto elements = static_cast<std::size_t>(dataset.image_shape().elements());
  std::vector<std::uint8_t> bytes(elements);
  if (dataset.pixel_type() == PixelType::u8) {
    dataset.read_pixels(index, nullptr, bytes);
    return bytes;
  }
  std::vector<float> numbers(elements);
  dataset.read_pixels(index, nullptr, numbers);
  const auto [least, most] = std::ranges::minmax(numbers);
  const float scale = most > least ? 255 / (most - least) : 0;
  std::ranges::transform(numbers, bytes.begin(), [least = least, scale](float number) {
    return static_cast<std::uint8_t>(std::lround((number - least) * scale));
  });
  return bytes;
}

}  // namespace

std::vector<std::byte> sample_png(const Dataset& dataset, std::int64_t index) {
  const ImageShape shape = dataset.image_shape();
  if (shape.channels != 1 && shape.channels != 3) return {};
  const std::vector<std::uint8_t> planes = bytes_of(dataset, index);
  DecodedImage image{.channels = static_cast<int>(shape.channels),
                     .height = static_cast<int>(shape.height),
                     .width = static_cast<int>(shape.width),
                     .pixels = std::vector<std::uint8_t>(planes.size())};
  const std::size_t channels = static_cast<std::size_t>(image.channels);
  const std::size_t plane = planes.size() / channels;
  for (std::size_t i = 0; i < planes.size(); ++i) image.pixels[i % plane * channels + i / plane] = planes[i];
  return encode_png(image);
}

std::string evaluation_json(const EvaluationDetails& details, const Dataset& dataset) {
  using Json = nlohmann::ordered_json;
  Json names = Json::array();
  Json confusion = Json::array();
  const auto classes = details.classes();
  for (std::int64_t label = 0; label < classes; ++label) {
    names.push_back(dataset.class_name(static_cast<int>(label)));
    const auto row = details.confusion().begin() + label * classes;
    confusion.push_back(std::vector<std::int64_t>(row, row + classes));
  }
  Json worst = Json::array();
  for (const SampleResult& sample : details.worst()) {
    const std::vector<std::byte> png = sample_png(dataset, sample.index);
    worst.push_back({{"index", sample.index},
                     {"label", sample.label},
                     {"predicted", sample.predicted},
                     {"probability", sample.probability},
                     {"loss", sample.loss},
                     {"png", png.empty() ? Json(nullptr) : Json(to_base64(png))}});
  }
  const Json json = {{"classes", names}, {"confusion", confusion}, {"worst", worst}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';  // names of folders may be any bytes
}

std::vector<NamedImage> misclassified_images(const EvaluationDetails& details, const Dataset& dataset) {
  std::vector<NamedImage> images;
  const ImageShape shape = dataset.image_shape();
  for (const SampleResult& sample : details.worst()) {
    if (sample.predicted == sample.label) continue;
    std::vector<std::byte> png = sample_png(dataset, sample.index);
    if (png.empty()) break;  // the others are no images either
    images.push_back({.name = fmt::format("misclassified/{:02}: {} as {}", images.size() + 1,
                                          dataset.class_name(sample.label), dataset.class_name(sample.predicted)),
                      .height = shape.height,
                      .width = shape.width,
                      .channels = shape.channels,
                      .png = std::move(png)});
  }
  return images;
}

}  // namespace trifold
