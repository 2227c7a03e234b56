#include "runtime/data/idx.h"

#include <zlib.h>

#include "runtime/data/file_bytes.h"
#include "runtime/data/temporary_folder.h"
#include "support/paths.h"

namespace trifold {
namespace {

using testing::input_error;
using testing::TemporaryFolder;
using testing::to_bytes;

// Two images of 2 x 3.
const std::vector<std::byte> kImages = to_bytes({0, 0, 8, 3, 0, 0, 0,   2,   0,   0,   0,   2,  0, 0, 0, 3,  //
                                                 1, 2, 3, 4, 5, 6, 250, 251, 252, 253, 254, 255});
const std::vector<std::byte> kLabels = to_bytes({0, 0, 8, 1, 0, 0, 0, 2, 9, 4});

std::vector<std::byte> gzip(const TemporaryFolder& folder, const std::vector<std::byte>& bytes) {
  const std::filesystem::path path = folder.path() / "packed";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return read_file(path);
}

TEST(Idx, ReadsExtentsAndValues) {
  const IdxArray array = parse_idx(kImages, "images");
  EXPECT_EQ(array.extents, (std::vector<std::int64_t>{2, 2, 3}));
  EXPECT_EQ(array.values, (std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6, 250, 251, 252, 253, 254, 255}));
}

TEST(Idx, ReadsGzip) {
  const TemporaryFolder folder;
  const IdxArray array = parse_idx(gzip(folder, kImages), "images.gz");
  EXPECT_EQ(array.values, parse_idx(kImages, "images").values);
}

TEST(Idx, EveryPrefixIsAnError) {
  const TemporaryFolder folder;
  for (const std::vector<std::byte>& whole : {kImages, kLabels, gzip(folder, kImages)}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      // A buffer of its own, so that a sanitizer sees any read beyond the end.
      const std::vector<std::byte> prefix(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_SAYS(input_error([&] { parse_idx(prefix, "cut.idx"); }), "cut.idx");
    }
  }
}

TEST(Idx, RefusesWhatTheHeaderDoesNotCover) {
  const TemporaryFolder folder;
  std::vector<std::byte> longer = kImages;
  longer.push_back(std::byte{0});
  EXPECT_SAYS(input_error([&] { parse_idx(longer, "x"); }), "announces 12 bytes of values");
  EXPECT_SAYS(input_error([&] { parse_idx(gzip(folder, longer), "x"); }), "more follow");
  EXPECT_SAYS(input_error([&] { parse_idx(to_bytes({0, 0, 13, 1, 0, 0, 0, 1, 0}), "x"); }), "0x0d");
  EXPECT_SAYS(input_error([&] { parse_idx(to_bytes({0, 0, 8, 9, 0, 0, 0, 1}), "x"); }), "found 9");
  EXPECT_SAYS(input_error([&] { parse_idx(to_bytes({'P', 'K', 3, 4}), "x"); }), "two zero bytes");
}

TEST(Idx, AHeaderCannotAskForMemory) {
  const auto huge = to_bytes({0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3});
  EXPECT_SAYS(input_error([&] { parse_idx(huge, "x"); }), "damaged");
  const TemporaryFolder folder;
  const auto large = to_bytes({0, 0, 8, 3, 0, 255, 255, 255, 0, 0, 0, 255, 0, 0, 0, 200, 1, 2, 3});
  EXPECT_SAYS(input_error([&] { parse_idx(gzip(folder, large), "x"); }), "but 3 follow");
}

TEST(Idx, OpensAPairOfFiles) {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", kImages);
  folder.write("train-labels-idx1-ubyte.gz", gzip(folder, kLabels));
  const auto set = open_idx(folder.path(), Split::train);
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(set->image_shape(), (ImageShape{1, 2, 3}));
  EXPECT_EQ(set->classes(), 10);
  EXPECT_EQ(set->label(0), 9);
  EXPECT_EQ(set->label(1), 4);
  std::vector<std::uint8_t> pixels(6);
  set->read_pixels(1, nullptr, std::span(pixels));
  EXPECT_EQ(pixels, (std::vector<std::uint8_t>{250, 251, 252, 253, 254, 255}));
  EXPECT_SAYS(input_error([&] { open_idx(folder.path(), Split::test); }), "t10k-images-idx3-ubyte");
}

TEST(Idx, RefusesImagesAndLabelsThatDoNotBelongTogether) {
  const TemporaryFolder folder;
  folder.write("t10k-images-idx3-ubyte", kImages);
  folder.write("t10k-labels-idx1-ubyte", to_bytes({0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3}));
  EXPECT_SAYS(input_error([&] { open_idx(folder.path(), Split::test); }), "3 labels for the 2 images");
  folder.write("t10k-labels-idx1-ubyte", kImages);
  EXPECT_SAYS(input_error([&] { open_idx(folder.path(), Split::test); }), "swapped");
}

TEST(Idx, ReadsRealDigits) {
  const std::filesystem::path folder = test::source_dir() / "../shared/data/mnist5k";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no digits at " << folder;
  const auto train = open_idx(folder, Split::train);
  const auto test = open_idx(folder, Split::test);
  EXPECT_GE(train->size(), 1000);
  EXPECT_GE(test->size(), 500);
  EXPECT_EQ(train->image_shape(), (ImageShape{1, 28, 28}));
  EXPECT_EQ(train->classes(), 10);
  double sum = 0;
  std::vector<std::uint8_t> pixels(784);
  for (std::int64_t i = 0; i < train->size(); ++i) {
    train->read_pixels(i, nullptr, std::span(pixels));
    for (const std::uint8_t pixel : pixels) sum += pixel;
  }
  EXPECT_NEAR(sum / 255 / 784 / static_cast<double>(train->size()), 0.1307, 0.01);  // the mean that MNIST is known for
}

}  // namespace
}  // namespace trifold
