#include "runtime/data/file_bytes.h"

#include <zlib.h>

#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::input_error;
using testing::TemporaryFolder;

std::vector<std::byte> pack(std::span<const std::byte> bytes) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::vector<std::byte> out(deflateBound(&stream, bytes.size()) + 32);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(FileBytes, ReadsAWholeFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_file(folder.write("a", "hello")),
            std::vector<std::byte>(testing::to_bytes({'h', 'e', 'l', 'l', 'o'})));
  EXPECT_TRUE(read_file(folder.write("empty", "")).empty());
}

TEST(FileBytes, NamesWhatCannotBeRead) {
  const TemporaryFolder folder;
  EXPECT_SAYS(input_error([&] { read_file(folder.path() / "gone"); }), "gone: no such file");
  EXPECT_SAYS(input_error([&] { read_file(folder.path()); }), "found a directory");
}

TEST(FileBytes, UnpacksGzipAcrossChunks) {
  std::vector<std::byte> plain(5'000'000);
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<std::byte>(i * i >> 5);
  const std::vector<std::byte> packed = pack(plain);
  EXPECT_TRUE(is_gzip(packed));
  const Unpacked all = unpack_gzip(packed, "x", plain.size());
  EXPECT_TRUE(all.complete);
  EXPECT_EQ(all.bytes, plain);
  const Unpacked part = unpack_gzip(packed, "x", 1000);
  EXPECT_FALSE(part.complete);
  EXPECT_TRUE(std::equal(part.bytes.begin(), part.bytes.end(), plain.begin(), plain.begin() + 1000));
}

TEST(FileBytes, AnUnpackedBombStaysWithinTheLimit) {
  const std::vector<std::byte> packed = pack(std::vector<std::byte>(50'000'000));
  const Unpacked part = unpack_gzip(packed, "bomb", 100);
  EXPECT_FALSE(part.complete);
  EXPECT_LE(part.bytes.capacity(), 100u);
}

TEST(FileBytes, DamagedGzipIsAnError) {
  std::vector<std::byte> packed = pack(std::vector<std::byte>(1000, std::byte{7}));
  for (std::size_t length = 0; length < packed.size(); ++length) {
    input_error([&] { unpack_gzip(std::span(packed).first(length), "cut.gz", 2000); });
  }
  packed[packed.size() - 6] ^= std::byte{1};  // in the checksum
  EXPECT_SAYS(input_error([&] { unpack_gzip(packed, "bad.gz", 2000); }), "bad.gz: damaged gzip data");
}

}  // namespace
}  // namespace trifold
