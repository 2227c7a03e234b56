// The only file that includes libpng. It uses the simplified API, which keeps libpng's longjmp to itself.
#include <cstring>

#include <png.h>

#include "core/error.h"
#include "runtime/data/image.h"

namespace trifold {

namespace {

class PngImage {
 public:
  PngImage() { image_.version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(&image_); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
  PngImage(PngImage&&) = delete;
  PngImage& operator=(PngImage&&) = delete;

  png_image& image() { return image_; }

 private:
  png_image image_{};
};

// libpng stops reading at the last pixel; only a walk to the IEND chunk tells whether the file is whole.
void check_chunks(std::span<const std::byte> bytes, std::string_view name) {
  constexpr std::size_t kSignatureBytes = 8;
  constexpr std::size_t kFrameBytes = 12;  // length, type and checksum
  std::size_t offset = kSignatureBytes;
  while (bytes.size() >= offset && bytes.size() - offset >= kFrameBytes) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | std::to_integer<std::size_t>(bytes[offset + i]);
    const bool last = std::memcmp(bytes.data() + offset + 4, "IEND", 4) == 0;
    if (length > bytes.size() - offset - kFrameBytes) break;
    if (last) return;
    offset += kFrameBytes + length;
  }
  fail_input("{}: the PNG data breaks off after {} bytes; fetch the file again", name, bytes.size());
}

}  // namespace

DecodedImage decode_png(std::span<const std::byte> bytes, std::string_view name) {
  check_chunks(bytes, name);
  PngImage png;
  png_image& image = png.image();
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size())) {
    fail_input("{}: damaged PNG data ({}); fetch the file again", name, image.message);
  }
  // Deflate packs at most 1032 to 1, and a bit can be a pixel.
  check_dimensions(image.width, image.height, bytes.size(), std::uint64_t{8} * 1032, name);
  const bool colour = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  image.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  // Sixteen-bit files hold the same curve as eight-bit ones, whatever libpng's default assumes.
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;

  DecodedImage decoded{.channels = colour ? 3 : 1,
                       .height = static_cast<int>(image.height),
                       .width = static_cast<int>(image.width),
                       .pixels = std::vector<std::uint8_t>(PNG_IMAGE_SIZE(image))};
  const png_color black{};  // shows where the image is transparent, as padding does
  if (!png_image_finish_read(&image, &black, decoded.pixels.data(), 0, nullptr)) {
    fail_input("{}: damaged PNG data ({}); fetch the file again", name, image.message);
  }
  return decoded;
}

std::vector<std::byte> encode_png(const DecodedImage& decoded) {
  TRIFOLD_CHECK(decoded.channels == 1 || decoded.channels == 3, "a PNG of {} channels", decoded.channels);
  PngImage png;
  png_image& image = png.image();
  image.width = static_cast<png_uint_32>(decoded.width);
  image.height = static_cast<png_uint_32>(decoded.height);
  image.format = decoded.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  TRIFOLD_CHECK(decoded.pixels.size() == PNG_IMAGE_SIZE(image), "{} bytes for a PNG of {}x{}", decoded.pixels.size(),
                decoded.width, decoded.height);
  std::vector<std::byte> bytes(PNG_IMAGE_PNG_SIZE_MAX(image));
  png_alloc_size_t size = bytes.size();
  if (!png_image_write_to_memory(&image, bytes.data(), &size, 0, decoded.pixels.data(), 0, nullptr))
    fail_runtime("cannot make a PNG: {}", image.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace trifold
