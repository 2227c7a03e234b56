// The only file that includes libjpeg. Its errors leave by longjmp, so the functions that call it hold no objects with
// destructors; decode_jpeg() turns their `false` into an Error.
#include <csetjmp>
#include <cstddef>
#include <cstdio>  // jpeglib.h needs FILE

#include <jpeglib.h>
// After jpeglib.h.
#include <jerror.h>

#include "core/error.h"
#include "runtime/data/image.h"

namespace trifold {

namespace {

constexpr int kMostScans = 100;  // a progressive file of more is made to waste time

struct ErrorState {
  jpeg_error_mgr manager;  // first, so that libjpeg's pointer to it is a pointer to this
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* state = reinterpret_cast<ErrorState*>(info->err);
  info->err->format_message(info, state->message);
  std::longjmp(state->escape, 1);
}

// libjpeg calls missing data a warning and paints it gray; training on that would be silent. Other warnings (stray
// bytes, odd version numbers) leave the picture whole and are common in the wild.
void on_message(j_common_ptr info, int level) {
  if (level < 0 && (info->err->msg_code == JWRN_JPEG_EOF || info->err->msg_code == JWRN_HIT_MARKER ||
                    info->err->msg_code == JWRN_HUFF_BAD_CODE)) {
    leave(info);
  }
}

void on_output(j_common_ptr) {}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans) {
    info->err->msg_code = JERR_BAD_PROGRESSION;
    leave(info);
  }
}

class JpegReader {
 public:
  JpegReader() {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = leave;
    errors_.manager.emit_message = on_message;
    errors_.manager.output_message = on_output;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  JpegReader(JpegReader&&) = delete;
  JpegReader& operator=(JpegReader&&) = delete;

  const jpeg_decompress_struct& info() const { return info_; }
  const char* message() const { return errors_.message; }

  bool read_header(std::span<const std::byte> bytes) {
    if (setjmp(errors_.escape)) return false;
    jpeg_create_decompress(&info_);
    progress_.progress_monitor = on_progress;
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()),
                 static_cast<unsigned long>(bytes.size()));
    jpeg_read_header(&info_, TRUE);
    // Print colours have no converter in libjpeg: they come as four channels and to_rgb() finishes the work.
    const J_COLOR_SPACE space = info_.jpeg_color_space;
    info_.out_color_space = space == JCS_GRAYSCALE                   ? JCS_GRAYSCALE
                            : space == JCS_CMYK || space == JCS_YCCK ? JCS_CMYK
                                                                     : JCS_RGB;
    jpeg_calc_output_dimensions(&info_);
    return true;
  }

  // Into [H, W, output_components].
  bool read_rows(std::uint8_t* pixels) {
    if (setjmp(errors_.escape)) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels + static_cast<std::size_t>(info_.output_scanline) * info_.output_width *
                                  static_cast<std::size_t>(info_.output_components);
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

 private:
  jpeg_decompress_struct info_{};
  jpeg_progress_mgr progress_{};
  ErrorState errors_{};
};

// Adobe's programs write print colours inverted, and all but a few CMYK files are theirs.
std::vector<std::uint8_t> to_rgb(std::span<const std::uint8_t> cmyk, bool inverted) {
  std::vector<std::uint8_t> rgb(cmyk.size() / 4 * 3);
  for (std::size_t i = 0; i < cmyk.size() / 4; ++i) {
    const auto light = [&](std::size_t c) { return inverted ? int{cmyk[4 * i + c]} : 255 - int{cmyk[4 * i + c]}; };
    for (std::size_t c = 0; c < 3; ++c) rgb[3 * i + c] = static_cast<std::uint8_t>((light(c) * light(3) + 127) / 255);
  }
  return rgb;
}

}  // namespace

DecodedImage decode_jpeg(std::span<const std::byte> bytes, std::string_view name) {
  JpegReader reader;
  if (!reader.read_header(bytes)) {
    fail_input("{}: damaged JPEG data ({}); fetch the file again", name, reader.message());
  }
  const jpeg_decompress_struct& info = reader.info();
  // A block of 8x8 pixels takes a bit at least, and colour may be halved twice each way.
  check_dimensions(info.output_width, info.output_height, bytes.size(), std::uint64_t{8} * 64 * 16, name);
  const std::size_t channels = info.out_color_space == JCS_GRAYSCALE ? 1 : info.out_color_space == JCS_CMYK ? 4 : 3;
  DecodedImage decoded{.channels = channels == 1 ? 1 : 3,
                       .height = static_cast<int>(info.output_height),
                       .width = static_cast<int>(info.output_width),
                       .pixels = {}};
  decoded.pixels.resize(std::size_t{info.output_height} * info.output_width * channels);
  TRIFOLD_CHECK(static_cast<std::size_t>(info.output_components) == channels, "{}: {} components decoded", name,
                info.output_components);
  if (!reader.read_rows(decoded.pixels.data())) {
    fail_input("{}: damaged JPEG data ({}); fetch the file again", name, reader.message());
  }
  if (channels == 4) decoded.pixels = to_rgb(decoded.pixels, info.saw_Adobe_marker);
  return decoded;
}

}  // namespace trifold
