// NumPy arrays, written here byte by byte: what is read, and what is refused.
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "runtime/data/source.h"
#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::input_error;
using testing::TemporaryFolder;

std::string header_of(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

// The header is padded with spaces and ends in a new line, so that elements begin at a multiple of 64.
std::string file_of(std::string header, const std::string& elements, int version = 1) {
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  while ((8 + length_bytes + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (std::size_t i = 0; i < length_bytes; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header + elements;
}

template <class T>
std::string elements(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::string array_of(const std::string& descr, const std::string& shape, const std::vector<T>& values) {
  return file_of(header_of(descr, shape), elements(values));
}

// 2 images of 1 x 2 x 3 and their labels, of which a test replaces some.
class Npy : public ::testing::Test {
 protected:
  void write(const std::string& images, const std::string& labels) const {
    folder_.write("train_images.npy", images);
    folder_.write("train_labels.npy", labels);
  }
  std::unique_ptr<Dataset> open(const ImageShape& input = {}, int classes = 0) const {
    DataSource source{.type = "npy", .input = input, .classes = classes};
    source.values.set("path", folder_.path().string());
    complete(source);
    return open_dataset(source, Split::train);
  }
  std::string error_of(const std::string& images, const std::string& labels, const ImageShape& input = {},
                       int classes = 0) const {
    write(images, labels);
    return input_error([&] { open(input, classes); });
  }

  const std::string images_ =
      array_of<std::uint8_t>("|u1", "(2, 1, 2, 3)", {1, 2, 3, 4, 5, 6, 250, 251, 252, 253, 254, 255});
  const std::string labels_ = array_of<std::int64_t>("<i8", "(2,)", {3, 0});
  TemporaryFolder folder_;
};

TEST_F(Npy, ReadsBytes) {
  write(images_, labels_);
  const auto set = open();
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(set->image_shape(), (ImageShape{1, 2, 3}));
  EXPECT_EQ(set->pixel_type(), PixelType::u8);
  EXPECT_EQ(set->classes(), 4);
  EXPECT_EQ(set->label(0), 3);
  EXPECT_EQ(set->label(1), 0);
  std::vector<std::uint8_t> pixels(6);
  set->read_pixels(1, nullptr, pixels);
  EXPECT_EQ(pixels, (std::vector<std::uint8_t>{250, 251, 252, 253, 254, 255}));
}

TEST_F(Npy, ReadsFloatsAndTargets) {
  write(array_of<float>("<f4", "(2, 3)", {1, -2.5f, 3, 4, 5, 6e-3f}),
        array_of<float>("<f4", "(2, 2)", {0.5f, 1, -7, 8}));
  const auto set = open();
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(set->image_shape(), (ImageShape{3, 1, 1}));
  EXPECT_EQ(set->pixel_type(), PixelType::f32);
  EXPECT_EQ(set->target_width(), 2);
  std::vector<float> row(3), targets(2);
  set->read_pixels(1, nullptr, row);
  set->read_targets(1, targets);
  EXPECT_EQ(row, (std::vector<float>{4, 5, 6e-3f}));
  EXPECT_EQ(targets, (std::vector<float>{-7, 8}));
}

TEST_F(Npy, ReadsEveryShapeAndLabelTypeAndVersion) {
  const auto shape = [&](const std::string& extents, const ImageShape& input = {}) {
    write(array_of<std::uint8_t>("|u1", extents, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), labels_);
    return open(input)->image_shape();
  };
  EXPECT_EQ(shape("(2, 3, 2, 1)"), (ImageShape{3, 2, 1}));
  EXPECT_EQ(shape("(2, 2, 3)"), (ImageShape{1, 2, 3}));
  EXPECT_EQ(shape("(2, 6)"), (ImageShape{6, 1, 1}));
  EXPECT_EQ(shape("(2, 6)", {1, 3, 2}), (ImageShape{1, 3, 2})) << "rows fill the model's input";

  for (const std::string& labels :
       {array_of<std::uint8_t>("|u1", "(2,)", {3, 200}), array_of<std::int32_t>("<i4", "(2,)", {3, 200}),
        array_of<std::int64_t>("<i8", "(2,)", {3, 200})}) {
    write(images_, labels);
    EXPECT_EQ(open()->label(1), 200);
  }
  write(images_, array_of<std::int32_t>("<i4", "(2,)", {999, 0}));
  EXPECT_EQ(open()->label(0), 999) << "more classes than a byte has";

  for (const int version : {1, 2, 3}) {
    write(file_of(header_of("|u1", "(2, 1, 1, 1)"), "ab", version), labels_);
    EXPECT_EQ(open()->size(), 2) << version;
  }
  // The keys in another order, without the blanks and the last comma.
  write(file_of("{\"shape\":(2,1,1),'fortran_order':False,'descr':'|u1'}", "ab"), labels_);
  EXPECT_EQ(open()->size(), 2);
}

TEST_F(Npy, EveryPrefixIsAnError) {
  for (std::size_t length = 0; length < images_.size(); ++length)
    EXPECT_SAYS(error_of(images_.substr(0, length), labels_), "train_images.npy");
  for (std::size_t length = 0; length < labels_.size(); ++length)
    EXPECT_SAYS(error_of(images_, labels_.substr(0, length)), "train_labels.npy");
  EXPECT_SAYS(error_of(images_.substr(0, 60), labels_), "ends within its header");
  EXPECT_SAYS(error_of(images_ + "x", labels_), "13 bytes");
}

// Any damaged byte is refused or leaves a set that can be read.
TEST_F(Npy, DamagedHeadersAreErrorsOrSets) {
  for (std::size_t at = 0; at < images_.size() - 12; ++at)
    for (const char value : {'\0', '\x01', '0', '9', '\'', '(', '}', ',', '\x7f', '\xff'}) {
      std::string damaged = images_;
      damaged[at] = value;
      write(damaged, labels_);
      try {
        const auto set = open();
        std::vector<std::uint8_t> pixels(static_cast<std::size_t>(set->image_shape().elements()));
        for (std::int64_t i = 0; i < set->size(); ++i) set->read_pixels(i, nullptr, pixels);
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::input) << error.what();
      }
    }
}

TEST_F(Npy, RefusesOtherFormats) {
  const auto images = [&](const std::string& header) { return error_of(file_of(header, "abcdefgh"), labels_); };
  EXPECT_SAYS(error_of("PK\x03\x04 an archive", labels_), "expected a NumPy array");
  std::string version = images_;
  version[6] = 4;
  EXPECT_SAYS(error_of(version, labels_), "version 4.0");
  version[6] = 1;
  version[7] = 1;
  EXPECT_SAYS(error_of(version, labels_), "version 1.1");
  EXPECT_SAYS(images(header_of("|u1", "(2, 2, 2)", "True")), "Fortran order");
  EXPECT_SAYS(images(header_of(">f4", "(2, 1)")), "big-endian");
  EXPECT_SAYS(images(header_of("|O", "(1,)")), "Python objects");
  EXPECT_SAYS(images(header_of("<f8", "(1, 1)")), "found '<f8'");
  EXPECT_SAYS(images(header_of("<i4", "(2, 1)")), "expected images of uint8 or float32");
  EXPECT_SAYS(images("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,), }"), "records with fields");
  EXPECT_SAYS(images("{'descr': '|u1', 'fortran_order': 0, 'shape': (8,), }"), "True or False");
  EXPECT_SAYS(images("{'descr': '|u1', 'shape': (8,), }"), "it needs");
  EXPECT_SAYS(images("{'descr': '|u1', 'descr': '|u1', 'shape': (8,), }"), "'descr' comes twice");
  EXPECT_SAYS(images("{'descr': '|u1', 'fortran_order': False, 'shape': (8,), 'more': 1}"), "its keys are");
  EXPECT_SAYS(images("{'descr': '|u1', 'fortran_order': False, 'shape': (8,), } x"), "more follows");
  EXPECT_SAYS(images("{'descr': '|u1', 'fortran_order': False, 'shape': (-8,), }"), "expected an extent");
  EXPECT_SAYS(images("{'descr': '|u1', 'fortran_order': False, 'shape': (9999999999999999999,), }"), "too many digits");
  EXPECT_SAYS(images("{'descr': '|u1', 'fortran_order': False, 'shape': 8, }"), "expected '('");
}

TEST_F(Npy, RefusesWhatDoesNotFit) {
  const auto bytes = [&](const std::string& shape, const std::string& elements) {
    return error_of(file_of(header_of("|u1", shape), elements), labels_);
  };
  EXPECT_SAYS(bytes("(2, 3)", "abcde"), "shape (2, 3) does not have 5 bytes");
  EXPECT_SAYS(bytes("(2, 3)", "abcdefg"), "does not have 7 bytes");
  EXPECT_SAYS(bytes("(2, 274177, 67280421310721)", "ab"), "does not have 2 bytes") << "2 in 64 bits: 2 * (2^64 + 1)";
  EXPECT_SAYS(bytes("(0, 3)", ""), "is empty");
  EXPECT_SAYS(bytes("(2, 1, 1, 1, 1)", "ab"), "expected an array of shape");
  EXPECT_SAYS(bytes("(2,)", "ab"), "expected an array of shape");
  EXPECT_SAYS(bytes("()", "a"), "expected an array of shape");
  EXPECT_SAYS(error_of(images_, array_of<std::int64_t>("<i8", "(3,)", {0, 1, 2})), "3 labels for the 2 images");
  EXPECT_SAYS(error_of(images_, array_of<std::int64_t>("<i8", "(2, 1)", {0, 1})), "expected labels of shape [N]");
  EXPECT_SAYS(error_of(images_, array_of<float>("<f4", "(2,)", {0, 1})), "targets of shape [N, K]");
  EXPECT_SAYS(error_of(images_, array_of<float>("<f4", "(2, 1)", {0, 1})), "float targets go with images of float32");
  EXPECT_SAYS(error_of(images_, array_of<std::int32_t>("<i4", "(2,)", {0, -1})), "sample 1 has label -1");
  EXPECT_SAYS(error_of(images_, array_of<std::int64_t>("<i8", "(2,)", {std::int64_t{1} << 32, 0})),
              "sample 0 has label 4294967296");
  EXPECT_SAYS(error_of(images_, labels_, {}, 3), "sample 0 has label 3, but the model has 3 classes");
  EXPECT_SAYS(error_of(images_, labels_, {1, 3, 3}), "images are 1x2x3, but the model's input is 1x3x3");
  const auto rows = [&](const std::vector<float>& values) { return array_of<float>("<f4", "(2, 2)", values); };
  EXPECT_SAYS(error_of(rows({1, 2, 3, 4}), labels_, {3, 1, 1}), "2 numbers per sample cannot fill");
  EXPECT_SAYS(error_of(rows({1, 2, 3, std::numeric_limits<float>::quiet_NaN()}), labels_),
              "sample 1 has a number that is not finite");
  EXPECT_SAYS(error_of(rows({1, 2, 3, 4}), rows({1, std::numeric_limits<float>::infinity(), 3, 4})),
              "train_labels.npy: sample 0 has a number that is not finite");
}

TEST_F(Npy, NamesTheFileThatIsMissing) {
  folder_.write("train_images.npy", images_);
  EXPECT_SAYS(input_error([&] { open(); }), "train_labels.npy");
}

}  // namespace
}  // namespace trifold
