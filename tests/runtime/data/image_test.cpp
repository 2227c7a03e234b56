// decode_image with its PNG and JPEG readers.
#include "runtime/data/image.h"

#include "runtime/data/picture_files.h"
#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::encode_jpeg;
using testing::encode_png;
using testing::input_error;
using testing::solid_rgb;

void expect_near(std::span<const std::uint8_t> found, std::span<const std::uint8_t> expected, int tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << "at " << i;
}

void expect_every_prefix_fails(const std::vector<std::byte>& whole) {
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::vector<std::byte> prefix(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_SAYS(input_error([&] { decode_image(prefix, "cut"); }), "cut");
  }
}

const std::vector<std::uint8_t> kPixels{255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30, 40, 50, 60, 70, 80, 90};

TEST(Image, DecodesPngExactly) {
  const DecodedImage colour = decode_image(encode_png(2, 3, PNG_FORMAT_RGB, kPixels.data()), "a.png");
  EXPECT_EQ(colour.channels, 3);
  EXPECT_EQ(colour.height, 2);
  EXPECT_EQ(colour.width, 3);
  EXPECT_EQ(colour.pixels, kPixels);
  const DecodedImage gray = decode_image(encode_png(3, 2, PNG_FORMAT_GRAY, kPixels.data()), "a.png");
  EXPECT_EQ(gray.channels, 1);
  EXPECT_EQ(gray.pixels, std::vector<std::uint8_t>(kPixels.begin(), kPixels.begin() + 6));
}

TEST(Image, APngThatWeWriteIsTheSameImage) {
  for (const int channels : {1, 3}) {
    const std::size_t size = channels == 3 ? 18 : 6;
    const DecodedImage image{.channels = channels,
                             .height = 2,
                             .width = 3,
                             .pixels = {kPixels.begin(), kPixels.begin() + static_cast<std::ptrdiff_t>(size)}};
    const DecodedImage back = decode_png(trifold::encode_png(image), "ours");
    EXPECT_EQ(back.channels, channels);
    EXPECT_EQ(back.height, 2);
    EXPECT_EQ(back.width, 3);
    EXPECT_EQ(back.pixels, image.pixels);
  }
  EXPECT_THROW(trifold::encode_png({.channels = 3, .height = 2, .width = 3, .pixels = {0}}), Error);
}

TEST(Image, TransparentPngIsBlackBehind) {
  const std::vector<std::uint8_t> rgba{200, 100, 50, 255, 200, 100, 50, 0};
  const DecodedImage image = decode_image(encode_png(1, 2, PNG_FORMAT_RGBA, rgba.data()), "a.png");
  EXPECT_EQ(image.pixels, (std::vector<std::uint8_t>{200, 100, 50, 0, 0, 0}));
}

TEST(Image, DecodesJpeg) {
  for (const bool progressive : {false, true}) {
    const auto solid = solid_rgb(20 * 17, 200, 100, 50);
    const DecodedImage colour = decode_image(encode_jpeg({20, 17, 3, progressive}, solid), "a.jpg");
    EXPECT_EQ(colour.height, 20);
    EXPECT_EQ(colour.width, 17);
    expect_near(colour.pixels, solid, 3);
  }
  std::vector<std::uint8_t> ramp(16 * 16);
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<std::uint8_t>(i);
  const DecodedImage gray = decode_image(encode_jpeg({16, 16, 1, false}, ramp), "a.jpg");
  EXPECT_EQ(gray.channels, 1);
  expect_near(gray.pixels, ramp, 6);
}

TEST(Image, DecodesPrintColours) {
  std::vector<std::uint8_t> cmyk;  // as Adobe writes it: 255 is no ink
  for (int i = 0; i < 64; ++i) cmyk.insert(cmyk.end(), {255, 128, 0, 255});
  const DecodedImage image = decode_image(encode_jpeg({8, 8, 4, false}, cmyk), "a.jpg");
  EXPECT_EQ(image.channels, 3);
  expect_near(image.pixels, solid_rgb(64, 255, 128, 0), 4);
}

TEST(Image, EveryPrefixIsAnError) {
  expect_every_prefix_fails(encode_png(2, 3, PNG_FORMAT_RGB, kPixels.data()));
  std::vector<std::uint8_t> noise(24 * 24 * 3);
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<std::uint8_t>(i * i * 37 >> 3);
  expect_every_prefix_fails(encode_png(24, 24, PNG_FORMAT_RGB, noise.data()));
  expect_every_prefix_fails(encode_jpeg({24, 24, 3, false}, noise));
  expect_every_prefix_fails(encode_jpeg({24, 24, 3, true}, noise));
}

TEST(Image, AFlippedByteNeverCrashes) {
  std::vector<std::uint8_t> noise(16 * 16 * 3);
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<std::uint8_t>(i * i * 37 >> 3);
  for (std::vector<std::byte> bytes : {encode_png(16, 16, PNG_FORMAT_RGB, noise.data()),
                                       encode_jpeg({16, 16, 3, false}, noise), encode_jpeg({16, 16, 3, true}, noise)}) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::byte kept = bytes[i];
      for (const int flip : {0x01, 0x80, 0xff}) {
        bytes[i] = kept ^ static_cast<std::byte>(flip);
        try {
          const DecodedImage image = decode_image(bytes, "flipped");
          EXPECT_EQ(image.pixels.size(), static_cast<std::size_t>(image.channels * image.height * image.width));
        } catch (const Error& error) {
          EXPECT_EQ(error.fault(), Fault::input) << error.what();
        }
      }
      bytes[i] = kept;
    }
  }
}

TEST(Image, RefusesAbsurdDimensions) {
  EXPECT_SAYS(input_error([] { check_dimensions(16385, 1, 1 << 30, 1, "x"); }), "beyond the limit");
  EXPECT_SAYS(input_error([] { check_dimensions(16384, 16384, 1 << 30, 1, "x"); }), "beyond the limit");
  EXPECT_SAYS(input_error([] { check_dimensions(0, 1, 1 << 30, 1, "x"); }), "0x1");
  EXPECT_SAYS(input_error([] { check_dimensions(1000, 1000, 100, 9999, "x"); }), "100 bytes cannot hold");
  EXPECT_NO_THROW(check_dimensions(1000, 1000, 100, 10000, "x"));
  // The size in a JPEG header has no checksum: blow it up.
  std::vector<std::byte> jpeg = encode_jpeg({8, 8, 3, false}, solid_rgb(64, 1, 2, 3));
  for (std::size_t i = 0; i + 9 < jpeg.size(); ++i) {
    if (jpeg[i] == std::byte{0xff} && jpeg[i + 1] == std::byte{0xc0}) jpeg[i + 5] = jpeg[i + 7] = std::byte{0xff};
  }
  EXPECT_SAYS(input_error([&] { decode_image(jpeg, "big.jpg"); }), "big.jpg: the image is 65288x65288 pixels");
}

TEST(Image, RefusesOtherFormats) {
  EXPECT_SAYS(input_error([] {
                decode_image(testing::to_bytes({'G', 'I', 'F', '8'}), "a.gif");
              }),
              "a.gif: expected a PNG");
  EXPECT_SAYS(input_error([] { decode_image({}, "none"); }), "found 0 bytes");
}

}  // namespace
}  // namespace trifold
