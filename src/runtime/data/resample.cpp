#include "runtime/data/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/error.h"

namespace trifold {

namespace {

// Which source positions make each output position, and with what weight.
struct Taps {
  std::vector<int> first;      // [outputs]
  std::vector<int> count;      // [outputs]
  std::vector<float> weights;  // [outputs, most]
  int most = 0;
};

Taps make_taps(double start, double length, int source_extent, int outputs) {
  const double scale = length / outputs;
  const double reach = std::max(1.0, scale);  // half the width of the triangle
  Taps taps;
  taps.most = static_cast<int>(std::ceil(2 * reach)) + 2;
  taps.first.resize(static_cast<std::size_t>(outputs));
  taps.count.resize(static_cast<std::size_t>(outputs));
  taps.weights.resize(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(taps.most));
  for (int i = 0; i < outputs; ++i) {
    const double centre = start + (i + 0.5) * scale;
    const int first = std::clamp(static_cast<int>(std::floor(centre - reach)), 0, source_extent - 1);
    const int end = std::clamp(static_cast<int>(std::ceil(centre + reach)), first + 1, source_extent);
    const int count = std::min(end - first, taps.most);
    float* weights = taps.weights.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(taps.most);
    double sum = 0;
    for (int tap = 0; tap < count; ++tap) {
      const double weight = std::max(0.0, 1.0 - std::abs(first + tap + 0.5 - centre) / reach);
      weights[tap] = static_cast<float>(weight);
      sum += weight;
    }
    if (sum <= 0) {  // a box of less than a pixel at the very edge
      weights[0] = 1;
      sum = 1;
    }
    for (int tap = 0; tap < count; ++tap) weights[tap] /= static_cast<float>(sum);
    taps.first[static_cast<std::size_t>(i)] = first;
    taps.count[static_cast<std::size_t>(i)] = count;
  }
  return taps;
}

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
}

}  // namespace

Box centre_box(const DecodedImage& image, const ImageShape& shape, int shorter_px) {
  const double cover =
      std::max(static_cast<double>(shape.width) / image.width, static_cast<double>(shape.height) / image.height);
  const double scale = std::max(cover, static_cast<double>(shorter_px) / std::min(image.width, image.height));
  const double width = shape.width / scale;
  const double height = shape.height / scale;
  return {.left = (image.width - width) / 2, .top = (image.height - height) / 2, .width = width, .height = height};
}

Box random_box(const DecodedImage& image, const ImageShape& shape, float least_area, RandomSequence& random) {
  const double area = static_cast<double>(image.width) * image.height;
  constexpr int kTries = 10;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const double wanted = area * random.uniform(least_area, 1.0f);
    const double proportion = std::exp(random.uniform(std::log(3.0f / 4.0f), std::log(4.0f / 3.0f)));
    const double width = std::sqrt(wanted * proportion);
    const double height = std::sqrt(wanted / proportion);
    const double left = random.uniform() * (image.width - width);
    const double top = random.uniform() * (image.height - height);
    if (left >= 0 && top >= 0) return {.left = left, .top = top, .width = width, .height = height};
  }
  return centre_box(image, shape, 0);
}

void resample(const DecodedImage& image, const Box& box, const ImageShape& shape, std::span<std::uint8_t> out) {
  TRIFOLD_CHECK(static_cast<std::int64_t>(out.size()) == shape.elements(), "{} pixels wanted of {}", out.size(),
                shape.elements());
  TRIFOLD_CHECK(shape.channels == 1 || shape.channels == 3, "pictures have 1 or 3 channels, not {}", shape.channels);
  const Taps across = make_taps(box.left, box.width, image.width, shape.width);
  const Taps down = make_taps(box.top, box.height, image.height, shape.height);
  const auto channels = static_cast<std::size_t>(image.channels);
  const auto out_width = static_cast<std::size_t>(shape.width);
  const auto out_height = static_cast<std::size_t>(shape.height);

  // Across first, only in the rows that some output row needs: [rows, out width, C].
  const int first_row = *std::min_element(down.first.begin(), down.first.end());
  int end_row = 0;
  for (std::size_t y = 0; y < out_height; ++y) end_row = std::max(end_row, down.first[y] + down.count[y]);
  const std::size_t row_values = out_width * channels;
  std::vector<float> rows(static_cast<std::size_t>(end_row - first_row) * row_values);
  for (int row = first_row; row < end_row; ++row) {
    const std::uint8_t* source =
        image.pixels.data() + static_cast<std::size_t>(row) * static_cast<std::size_t>(image.width) * channels;
    float* target = rows.data() + static_cast<std::size_t>(row - first_row) * row_values;
    for (std::size_t x = 0; x < out_width; ++x) {
      const float* weights = across.weights.data() + x * static_cast<std::size_t>(across.most);
      const std::uint8_t* from = source + static_cast<std::size_t>(across.first[x]) * channels;
      for (std::size_t c = 0; c < channels; ++c) {
        float sum = 0;
        for (int tap = 0; tap < across.count[x]; ++tap) {
          sum += weights[tap] * static_cast<float>(from[static_cast<std::size_t>(tap) * channels + c]);
        }
        target[x * channels + c] = sum;
      }
    }
  }

  std::vector<float> line(row_values);
  for (std::size_t y = 0; y < out_height; ++y) {
    const float* weights = down.weights.data() + y * static_cast<std::size_t>(down.most);
    std::fill(line.begin(), line.end(), 0.0f);
    for (int tap = 0; tap < down.count[y]; ++tap) {
      const float* source = rows.data() + static_cast<std::size_t>(down.first[y] - first_row + tap) * row_values;
      for (std::size_t i = 0; i < row_values; ++i) line[i] += weights[tap] * source[i];
    }
    for (std::size_t x = 0; x < out_width; ++x) {
      const float* pixel = line.data() + x * channels;
      const auto put = [&](std::size_t c, float value) { out[(c * out_height + y) * out_width + x] = to_byte(value); };
      if (shape.channels == image.channels) {
        for (std::size_t c = 0; c < channels; ++c) put(c, pixel[c]);
      } else if (shape.channels == 3) {
        for (std::size_t c = 0; c < 3; ++c) put(c, pixel[0]);
      } else {
        put(0, 0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2]);  // the luma of ITU-R 601
      }
    }
  }
}

}  // namespace trifold
