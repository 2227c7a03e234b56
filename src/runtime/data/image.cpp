#include "runtime/data/image.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace trifold {

namespace {

constexpr std::uint64_t kLongestSide = 16384;
constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 27;

bool starts_with(std::span<const std::byte> bytes, std::span<const unsigned char> signature) {
  return bytes.size() >= signature.size() &&
         std::equal(signature.begin(), signature.end(), bytes.begin(),
                    [](unsigned char expected, std::byte found) { return std::byte{expected} == found; });
}

}  // namespace

void check_dimensions(std::uint64_t width, std::uint64_t height, std::size_t file_bytes,
                      std::uint64_t most_pixels_per_byte, std::string_view name) {
  if (width == 0 || height == 0) fail_input("{}: the image is {}x{} pixels; remove the file", name, width, height);
  if (width > kLongestSide || height > kLongestSide || width * height > kMostPixels) {
    fail_input("{}: the image is {}x{} pixels, beyond the limit of {} a side and {} in all; scale it down or remove it",
               name, width, height, kLongestSide, kMostPixels);
  }
  if (width * height > most_pixels_per_byte * file_bytes) {
    fail_input("{}: the header announces {}x{} pixels, which {} bytes cannot hold; the file is damaged, fetch it again",
               name, width, height, file_bytes);
  }
}

DecodedImage decode_image(std::span<const std::byte> bytes, std::string_view name) {
  static constexpr std::array<unsigned char, 8> kPng{0x89, 'P', 'N', 'G', 0x0d, 0x0a, 0x1a, 0x0a};
  static constexpr std::array<unsigned char, 3> kJpeg{0xff, 0xd8, 0xff};
  if (starts_with(bytes, kPng)) return decode_png(bytes, name);
  if (starts_with(bytes, kJpeg)) return decode_jpeg(bytes, name);
  fail_input("{}: expected a PNG or JPEG image, found {} bytes that begin as neither; convert or remove the file", name,
             bytes.size());
}

}  // namespace trifold
