// One decoded picture. decode_image() reads PNG and JPEG from memory; any other or any damaged content is one Error
// that names the file. encode_png() is the way back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trifold {

struct DecodedImage {
  int channels = 0;  // 1 (gray) or 3 (RGB)
  int height = 0;
  int width = 0;
  std::vector<std::uint8_t> pixels;  // [H, W, C], as the decoders give them
};

DecodedImage decode_image(std::span<const std::byte> bytes, std::string_view name);

DecodedImage decode_png(std::span<const std::byte> bytes, std::string_view name);
DecodedImage decode_jpeg(std::span<const std::byte> bytes, std::string_view name);
std::vector<std::byte> encode_png(const DecodedImage& image);

// Refuses dimensions beyond reason, and ones that `file_bytes` of compressed data cannot hold at
// `most_pixels_per_byte`, before anything is allocated for them.
void check_dimensions(std::uint64_t width, std::uint64_t height, std::size_t file_bytes,
                      std::uint64_t most_pixels_per_byte, std::string_view name);

}  // namespace trifold
