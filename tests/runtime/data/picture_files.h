// PNG and JPEG files made in memory, for tests that read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include <jpeglib.h>
#include <png.h>

namespace trifold::testing {

// `pixels` is [H, W, channels of `format`].
inline std::vector<std::byte> encode_png(int height, int width, unsigned format, const void* pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  png_alloc_size_t size = 0;
  png_image_write_get_memory_size(image, size, 0, pixels, 0, nullptr);
  std::vector<std::byte> bytes(size);
  png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels, 0, nullptr);
  bytes.resize(size);
  return bytes;
}

struct JpegArgs {
  int height = 0;
  int width = 0;
  int channels = 3;  // 1, 3, or 4 for CMYK
  bool progressive = false;
};

inline std::vector<std::byte> encode_jpeg(const JpegArgs& args, std::span<const std::uint8_t> pixels) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(args.width);
  info.image_height = static_cast<JDIMENSION>(args.height);
  info.input_components = args.channels;
  info.in_color_space = args.channels == 1 ? JCS_GRAYSCALE : args.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 98, TRUE);
  if (args.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<std::uint8_t*>(pixels.data()) +
                std::size_t{info.next_scanline} * static_cast<std::size_t>(args.width * args.channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto* first = reinterpret_cast<const std::byte*>(memory);
  std::vector<std::byte> bytes(first, first + size);
  std::free(memory);
  return bytes;
}

inline std::vector<std::uint8_t> solid_rgb(int pixels, int red, int green, int blue) {
  std::vector<std::uint8_t> out;
  for (int i = 0; i < pixels; ++i) {
    out.push_back(static_cast<std::uint8_t>(red));
    out.push_back(static_cast<std::uint8_t>(green));
    out.push_back(static_cast<std::uint8_t>(blue));
  }
  return out;
}

}  // namespace trifold::testing
