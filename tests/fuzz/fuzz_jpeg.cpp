// JPEG pictures, straight into the decoder: what is accepted has all its pixels.
#include "only_errors.h"
#include "runtime/data/image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trifold;
  fuzz::accepts([&] {
    const DecodedImage image = decode_jpeg(fuzz::as_bytes(data, size), "fuzz.jpeg");
    const auto pixels = static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width);
    if ((image.channels != 1 && image.channels != 3) ||
        image.pixels.size() != pixels * static_cast<std::size_t>(image.channels))
      fuzz::report_defect("the pixels do not match the picture's size");
  });
  return 0;
}
