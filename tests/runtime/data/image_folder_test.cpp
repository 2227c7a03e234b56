#include "runtime/data/image_folder.h"

#include "runtime/data/picture_files.h"
#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::encode_jpeg;
using testing::encode_png;
using testing::input_error;
using testing::solid_rgb;
using testing::TemporaryFolder;

std::vector<std::byte> png(int red, int green, int blue) {
  return encode_png(12, 20, PNG_FORMAT_RGB, solid_rgb(240, red, green, blue).data());
}

void write_pictures(const TemporaryFolder& folder) {
  folder.write("train/dog/b.png", png(0, 255, 0));
  folder.write("train/dog/a.JPG", encode_jpeg({16, 16, 3, false}, solid_rgb(256, 200, 30, 60)));
  folder.write("train/cat/1.png", png(255, 0, 0));
  folder.write("train/cat/notes.txt", "not a picture");
  folder.write("train/.hidden/x.png", png(1, 1, 1));
  folder.write("test/dog/z.png", png(9, 9, 9));
}

TEST(ImageFolder, ClassesAreSortedFolders) {
  const TemporaryFolder folder;
  write_pictures(folder);
  const auto set = open_image_folder(folder.path(), Split::train, {3, 8, 8}, {});
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->classes(), 2);
  EXPECT_EQ(set->label(0), 0);
  EXPECT_EQ(set->label(1), 1);
  EXPECT_SAYS(set->origin(1), "dog/a.JPG");
  std::vector<std::uint8_t> pixels(3 * 64);
  set->read_pixels(2, nullptr, std::span(pixels));
  EXPECT_EQ(pixels[0], 0);
  EXPECT_EQ(pixels[64], 255);
  set->read_pixels(1, nullptr, std::span(pixels));
  EXPECT_NEAR(pixels[10], 200, 3);
  EXPECT_NEAR(pixels[64 + 10], 30, 3);
}

TEST(ImageFolder, TheTestSplitKeepsTheClassesOfTheTrainSplit) {
  const TemporaryFolder folder;
  write_pictures(folder);
  const auto set = open_image_folder(folder.path(), Split::test, {1, 8, 8}, {});
  EXPECT_EQ(set->classes(), 2);
  EXPECT_EQ(set->label(0), 1);  // dog, although there is no cat here
  folder.write("test/eel/z.png", png(9, 9, 9));
  EXPECT_SAYS(input_error([&] { open_image_folder(folder.path(), Split::test, {1, 8, 8}, {}); }), "class \"eel\"");
}

TEST(ImageFolder, RandomCropsFollowTheirNumbers) {
  const TemporaryFolder folder;
  std::vector<std::uint8_t> ramp(64 * 64);
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<std::uint8_t>(i % 64 * 2 + i / 64 * 2);
  folder.write("train/a/a.png", encode_png(64, 64, PNG_FORMAT_GRAY, ramp.data()));
  const auto set = open_image_folder(folder.path(), Split::train, {1, 16, 16}, {.random_resized_crop = true});
  const auto read = [&](std::uint64_t sample) {
    RandomSequence random(5, Purpose::augment, 0, sample);
    std::vector<std::uint8_t> pixels(256);
    set->read_pixels(0, &random, std::span(pixels));
    return pixels;
  };
  EXPECT_EQ(read(1), read(1));
  EXPECT_NE(read(1), read(2));
  std::vector<std::uint8_t> centre(256);
  set->read_pixels(0, nullptr, std::span(centre));
  EXPECT_NE(read(1), centre);
}

TEST(ImageFolder, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_SAYS(input_error([&] { open_image_folder(folder.path(), Split::train, {3, 8, 8}, {}); }), "cannot be listed");
  std::filesystem::create_directories(folder.path() / "train");
  EXPECT_SAYS(input_error([&] {
                open_image_folder(folder.path(), Split::train, {3, 8, 8}, {});
              }),
              "one folder a class");
  folder.write("train/a/readme", "x");
  EXPECT_SAYS(input_error([&] { open_image_folder(folder.path(), Split::train, {3, 8, 8}, {}); }), "found none");
  EXPECT_SAYS(input_error([&] { open_image_folder(folder.path(), Split::train, {2, 8, 8}, {}); }), "1 or 3 channels");
  const ImageFolderOptions small{.resize_shorter_px = 7};
  EXPECT_SAYS(input_error([&] { open_image_folder(folder.path(), Split::train, {3, 8, 8}, small); }), "8 or more");
  folder.write("train/a/bad.png", "not a picture");
  const auto set = open_image_folder(folder.path(), Split::train, {3, 8, 8}, {});
  std::vector<std::uint8_t> pixels(192);
  EXPECT_SAYS(input_error([&] { set->read_pixels(0, nullptr, std::span(pixels)); }), "bad.png: expected a PNG or JPEG");
}

}  // namespace
}  // namespace trifold
