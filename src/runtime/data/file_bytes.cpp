#include "runtime/data/file_bytes.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <zlib.h>

#include "core/error.h"

namespace trifold {

namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// The zlib state of one stream.
class Inflater {
 public:
  Inflater() {
    constexpr int kGzipWindowBits = 15 + 16;
    if (inflateInit2(&stream_, kGzipWindowBits) != Z_OK) fail_runtime("zlib: no memory to unpack a file");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  Inflater(Inflater&&) = delete;
  Inflater& operator=(Inflater&&) = delete;

  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

}  // namespace

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) fail_input("{}: no such file; check the path in data.path", path.string());
  if (std::filesystem::is_directory(status)) {
    fail_input("{}: expected a file, found a directory; name the file itself", path.string());
  }
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) fail_input("{}: cannot be opened ({}); check its permissions", path.string(), std::strerror(errno));
  // Read in chunks: the size of a pipe or of a file that is being written cannot be trusted beforehand.
  std::vector<std::byte> bytes;
  for (;;) {
    const std::size_t have = bytes.size();
    const auto announced = have == 0 ? std::filesystem::file_size(path, error) : 0;
    const std::size_t more = error || announced == 0 || announced > (std::uintmax_t{1} << 40)
                                 ? kChunkBytes
                                 : static_cast<std::size_t>(announced) + 1;
    bytes.resize(have + more);
    const std::size_t got = std::fread(bytes.data() + have, 1, more, file.get());
    bytes.resize(have + got);
    if (got == more) continue;
    if (std::ferror(file.get())) fail_runtime("{}: reading failed after {} bytes", path.string(), bytes.size());
    return bytes;
  }
}

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Unpacked unpack_gzip(std::span<const std::byte> bytes, std::string_view name, std::size_t limit_bytes) {
  Inflater inflater;
  z_stream& stream = inflater.stream();
  Unpacked out;
  std::size_t consumed = 0;
  std::size_t produced = 0;
  for (;;) {
    if (produced == out.bytes.size() && produced < limit_bytes) {
      out.bytes.resize(std::min(limit_bytes, std::max<std::size_t>(kChunkBytes, produced * 2)));
    }
    const std::size_t input_bytes = std::min<std::size_t>(bytes.size() - consumed, kChunkBytes);
    const std::size_t room_bytes = std::min<std::size_t>(out.bytes.size() - produced, std::size_t{1} << 30);
    // At the limit, one more byte of room tells "ended here" from "goes on".
    Bytef beyond = 0;
    const bool at_limit = produced == limit_bytes;
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data() + consumed));
    stream.avail_in = static_cast<uInt>(input_bytes);
    stream.next_out = at_limit ? &beyond : reinterpret_cast<Bytef*>(out.bytes.data() + produced);
    stream.avail_out = at_limit ? 1u : static_cast<uInt>(room_bytes);
    const int status = inflate(&stream, Z_NO_FLUSH);
    consumed += input_bytes - stream.avail_in;
    if (at_limit && stream.avail_out == 0) return out;
    if (!at_limit) produced += room_bytes - stream.avail_out;
    if (status == Z_STREAM_END) {
      out.bytes.resize(produced);
      out.complete = true;
      return out;
    }
    if (status == Z_MEM_ERROR) fail_runtime("{}: no memory to unpack the gzip data", name);
    if (status != Z_OK && status != Z_BUF_ERROR) {
      fail_input("{}: damaged gzip data after {} unpacked bytes ({}); fetch the file again", name, produced,
                 stream.msg ? stream.msg : "no reason given");
    }
    if (consumed == bytes.size() && stream.avail_out > 0) {
      fail_input("{}: the gzip data breaks off after {} of its bytes ({} unpacked); fetch the file again", name,
                 bytes.size(), produced);
    }
  }
}

}  // namespace trifold
