#include "runtime/data/cifar.h"

#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::input_error;
using testing::TemporaryFolder;

// One record whose pixel i is i + label (mod 256).
std::vector<std::byte> record(std::initializer_list<int> labels) {
  std::vector<std::byte> bytes = testing::to_bytes(labels);
  const int offset = *(labels.end() - 1);
  for (int i = 0; i < 3072; ++i) bytes.push_back(static_cast<std::byte>(i + offset));
  return bytes;
}

std::vector<std::byte> operator+(std::vector<std::byte> a, const std::vector<std::byte>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Cifar, ReadsTenClasses) {
  const CifarRecords records = parse_cifar(record({3}) + record({9}), "batch", CifarKind::cifar10);
  EXPECT_EQ(records.labels, (std::vector<std::uint8_t>{3, 9}));
  ASSERT_EQ(records.pixels.size(), 2u * 3072);
  EXPECT_EQ(records.pixels[0], 3);
  EXPECT_EQ(records.pixels[3072 + 1], 10);
}

TEST(Cifar, ReadsFineLabelsOfAHundred) {
  const CifarRecords records = parse_cifar(record({19, 77}), "train.bin", CifarKind::cifar100);
  EXPECT_EQ(records.labels, (std::vector<std::uint8_t>{77}));
  EXPECT_EQ(records.pixels[0], 77);
}

TEST(Cifar, AnythingButWholeRecordsIsAnError) {
  const std::vector<std::byte> whole = record({3}) + record({4});
  for (std::size_t length = 0; length < whole.size(); length += length < 10 || length > 3060 ? 1 : 97) {
    if (length == 3073) continue;  // one whole record
    const std::vector<std::byte> prefix(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_SAYS(input_error([&] { parse_cifar(prefix, "cut.bin", CifarKind::cifar10); }), "cut.bin");
  }
}

TEST(Cifar, ALabelOutsideTheFormatIsAnError) {
  EXPECT_SAYS(input_error([] { parse_cifar(record({3}) + record({10}), "b.bin", CifarKind::cifar10); }),
              "b.bin: record 1 has label 10, expected 0..9");
}

TEST(Cifar, OpensTheOfficialFolder) {
  const TemporaryFolder folder;
  for (int i = 1; i <= 5; ++i) {
    folder.write("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin", record({i}) + record({0}));
  }
  folder.write("cifar-10-batches-bin/test_batch.bin", record({8}));
  const auto train = open_cifar(folder.path(), Split::train, CifarKind::cifar10);
  ASSERT_EQ(train->size(), 10);
  EXPECT_EQ(train->label(8), 5);
  EXPECT_SAYS(train->origin(5), "data_batch_3.bin");
  EXPECT_EQ(train->image_shape(), (ImageShape{3, 32, 32}));
  EXPECT_EQ(open_cifar(folder.path(), Split::test, CifarKind::cifar10)->label(0), 8);
  EXPECT_SAYS(input_error([&] { open_cifar(folder.path(), Split::test, CifarKind::cifar100); }),
              "test.bin: no such file");
}

}  // namespace
}  // namespace trifold
